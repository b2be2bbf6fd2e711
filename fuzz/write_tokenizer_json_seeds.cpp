// Writes the initial corpus of tokenizer_json_fuzz into a directory: a small file of each kind of model.
#include <fmt/core.h>

#include <array>
#include <fstream>

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} DIRECTORY\n", argv[0]);
    return 2;
  }
  constexpr std::array<const char*, 4> kSeeds{
      R"({"added_tokens":[{"id":3,"content":"<s>","special":true}],"normalizer":null,"pre_tokenizer":{"type":"Sequence",
      "pretokenizers":[{"type":"Split","pattern":{"Regex":"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"},
      "behavior":"Isolated","invert":false},{"type":"Digits","individual_digits":true},{"type":"ByteLevel","use_regex":true}]},
      "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}}],"pair":
      [{"Sequence":{"id":"A"}},{"Sequence":{"id":"B"}}]},"model":{"type":"BPE","ignore_merges":true,"vocab":{"a":0,"b":1,
      "ab":2},"merges":[["a","b"]]}})",
      R"({"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":
      {"String":" "},"content":"▁"}]},"model":{"type":"BPE","byte_fallback":true,"unk_token":"<unk>","vocab":{"<unk>":0,
      "<0x41>":1,"a":2,"b":3,"ab":4},"merges":["a b"]}})",
      R"({"normalizer":{"type":"Precompiled","precompiled_charsmap":"bWFw"},"pre_tokenizer":{"type":"Metaspace",
      "prepend_scheme":"first"},"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0.0],["a",-1.5]]}})",
      R"({"normalizer":{"type":"BertNormalizer","lowercase":true},"post_processor":{"type":"BertProcessing","cls":
      ["[CLS]",0],"sep":["[SEP]",1]},"model":{"type":"WordPiece","vocab":{"[CLS]":0,"[SEP]":1,"a":2,"##b":3}}})"};
  for (size_t i = 0; i < kSeeds.size(); ++i) std::ofstream(fmt::format("{}/seed-{}", argv[1], i)) << kSeeds[i];
  return 0;
}
