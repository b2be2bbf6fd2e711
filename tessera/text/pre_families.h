// The stages of each family of pre-tokenizers: patterns from the tokenizer files of the models, in the syntax of
// pattern_parser.h, and cuts that are not patterns. Used by pre_tokenizer.cpp.
#pragma once

#include <string_view>

// Shared parts. Words of o200k are letters with marks, upper case before lower case, optionally followed by a
// contraction.
#define TESSERA_PRE_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TESSERA_PRE_SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define TESSERA_PRE_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define TESSERA_PRE_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define TESSERA_PRE_GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define TESSERA_PRE_WORDS(digits)                                   \
  TESSERA_PRE_CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits \
                           "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" TESSERA_PRE_SPACES
#define TESSERA_PRE_CASED(upper, lower, contractions) \
  "[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" contractions "|[^\\r\\n\\p{L}\\p{N}]?" upper "+" lower "*" contractions
#define TESSERA_PRE_O200K(digits)                                                       \
  TESSERA_PRE_CASED(TESSERA_PRE_UPPER, TESSERA_PRE_LOWER, TESSERA_PRE_CONTRACTIONS "?") \
  "|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" TESSERA_PRE_SPACES
// An ASCII punctuation mark may precede an ASCII word. Runs of punctuation and symbols are words.
#define TESSERA_PRE_DEEPSEEK_V3                                                                       \
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+" \
  "| ?[\\p{P}\\p{S}]+[\\r\\n]*|" TESSERA_PRE_SPACES
#define TESSERA_PRE_HAN_LESS_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define TESSERA_PRE_HAN_LESS_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define TESSERA_PRE_DEEPSEEK_HAN "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
#define TESSERA_PRE_HAN_KANA "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{30FF}]+"
#define TESSERA_PRE_BLOOM " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+"

namespace tessera::text {

struct FamilyStage {
  std::string_view family;
  std::string_view stage;  // a pattern, or @ and the name of another cut
};

// The stages of a family are consecutive, in the order in which they cut.
inline constexpr FamilyStage kFamilyStages[] = {
    {"gpt2", TESSERA_PRE_GPT2},
    {"llama3", TESSERA_PRE_WORDS("\\p{N}{1,3}")},
    {"qwen2", TESSERA_PRE_WORDS("\\p{N}")},
    {"laguna", "[^\\n]+|[\\n]+"},
    {"laguna", TESSERA_PRE_WORDS("\\p{N}")},
    {"minicpm5", "\\p{N}{1,3}"},
    {"minicpm5", TESSERA_PRE_WORDS("\\p{N}+")},
    {"jais2", TESSERA_PRE_WORDS("\\p{N}{1,3}")},
    // The model's pattern ends in \s{512}(?!\S)|\s{256}(?!\S)|...|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}. As a pattern it
    // would search for the end of a long run again for each block of the run.
    {"jais2", "@space_blocks"},
    {"qwen35", TESSERA_PRE_CONTRACTIONS
     "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" TESSERA_PRE_SPACES},
    {"seed-coder", TESSERA_PRE_CONTRACTIONS
     "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" TESSERA_PRE_SPACES},
    {"bailingmoe",
     "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*"
     "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"},
    {"exaone-moe", TESSERA_PRE_CONTRACTIONS
     "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?"
     "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"},
    {"starcoder", "\\p{N}"},
    {"starcoder", TESSERA_PRE_GPT2},
    {"default", "[\\p{P}\\$\\+<=>\\^~\\|]+"},
    {"default", TESSERA_PRE_GPT2},
    {"default", "\\p{N}+"},
    {"default", "[0-9][0-9][0-9]"},
    {"falcon", "[\\p{P}\\$\\+<=>\\^~\\|`]+"},
    {"falcon", TESSERA_PRE_GPT2},
    {"falcon", "[0-9][0-9][0-9]"},
    {"deepseek-llm", "[\\r\\n]"},
    {"deepseek-llm",  // the cased letters of some version of Unicode
     "\\s?[\\x{41}-\\x{5A}\\x{61}-\\x{7A}\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}"
     "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}"
     "\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}"
     "\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}"
     "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}"
     "\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}"
     "\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}"
     "\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}"
     "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}"
     "\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}"
     "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"
     "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}"
     "\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}"
     "\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}]+"},
    {"deepseek-llm", "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+"},
    {"deepseek-llm", "@trailing_space"},
    {"deepseek-llm", TESSERA_PRE_DEEPSEEK_HAN},
    {"deepseek-llm", "\\p{N}+"},
    {"deepseek-coder", "[\\r\\n]"},
    {"deepseek-coder", "\\s?\\p{L}+"},
    {"deepseek-coder", "\\s?\\p{P}+"},
    {"deepseek-coder", TESSERA_PRE_DEEPSEEK_HAN},
    {"deepseek-coder", "\\p{N}"},
    {"deepseek-v3", "\\p{N}{1,3}"},
    {"deepseek-v3", TESSERA_PRE_HAN_KANA},
    {"deepseek-v3", TESSERA_PRE_DEEPSEEK_V3},
    {"afmoe", "@digits"},
    {"afmoe",
     "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{F900}-\\x{FAFF}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}"
     "\\x{FF65}-\\x{FF9F}\\x{2F00}-\\x{2FDF}\\x{E40}-\\x{E7F}\\x{E80}-\\x{EFF}\\x{1780}-\\x{17FF}\\x{1000}-\\x{109F}"
     "\\x{AA60}-\\x{AA7F}\\x{A9E0}-\\x{A9FF}\\x{AC00}-\\x{D7AF}\\x{1100}-\\x{11FF}]+"},
    {"afmoe", TESSERA_PRE_DEEPSEEK_V3},
    {"o200k", TESSERA_PRE_O200K("\\p{N}{1,3}")},
    {"tiny-aya", "@bounded_digits"},
    {"tiny-aya", TESSERA_PRE_O200K("\\p{N}{1,3}")},
    {"youtu",
     "[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}\\x{2019}\\x{2014}"
     "\\x{FF1A}\\x{FF1B}\\x{FF0C}\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+|[\\x{3105}-\\x{312F}]+"
     "|" TESSERA_PRE_HAN_KANA},
    {"youtu", TESSERA_PRE_O200K("\\p{N}")},
    {"tekken", TESSERA_PRE_CASED(TESSERA_PRE_UPPER, TESSERA_PRE_LOWER,
                                 "") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" TESSERA_PRE_SPACES},
    {"kimi-k2", "[\\p{Han}]+|" TESSERA_PRE_CASED(
                    TESSERA_PRE_HAN_LESS_UPPER, TESSERA_PRE_HAN_LESS_LOWER,
                    TESSERA_PRE_CONTRACTIONS "?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" TESSERA_PRE_SPACES},
    {"superbpe", "\\p{N}+"},
    {"superbpe", "@decimal_digits"},
    {"chameleon", "<sentinel:[0-9]+>"},
    {"chameleon", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"},
    {"chameleon", "([\\t\\n]|    |  )"},
    {"chameleon", "\\p{N}"},
    {"chameleon", "[\\p{P}!-/:-@\\[-`{-~]"},
    {"chameleon", TESSERA_PRE_GPT2},
    {"bloom", TESSERA_PRE_BLOOM},
    {"viking", TESSERA_PRE_BLOOM},
    {"viking", "\\p{N}"},
    {"lines", "[^\\n]+|[\\n]+"},
    {"whitespace", "\\S+"},
};

}  // namespace tessera::text
