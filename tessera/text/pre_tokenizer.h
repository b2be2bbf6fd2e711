// Cuts a text into the words within which BPE merges, by the rules that tokenizer.ggml.pre names. A family of rules is
// a list of stages, each of which cuts the pieces of the previous one. The rows of pre_tokenizers.def assign a family
// to every accepted name. Called by the BPE tokenizer. It needs linear time and constant memory, because it cuts one
// word at a time off the front.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/text/split_pattern.h"

namespace tessera::text {

/// Further properties of a name, as bits.
enum PreFlag : unsigned {
  kAddBos = 1,          // add_bos is the default
  kAddSep = 2,          // add_sep is the default
  kNoDefaultBos = 4,    // no BOS unless the file names one
  kWholeWords = 8,      // a word that is a token becomes that token, regardless of the merges
  kRawUtf8 = 16,        // tokens are spelled in UTF-8 and bytes as <0xHH>; otherwise in GPT-2's byte signs
  kEscapeSpaces = 32,   // spaces become U+2581
  kWholeNewlines = 64,  // kWholeWords for words of newlines only
  kDropSpaces = 128,    // white space between words is dropped
};

struct PreRow {
  std::string_view name;
  std::string_view family;
  unsigned flags;
};

/// All known names.
std::span<const PreRow> pre_rows();

/// The row of a name of tokenizer.ggml.pre, or null.
const PreRow* find_pre(std::string_view name);

/// The row used for an unknown name: "default".
const PreRow& fallback_pre();

/// One cut of a text.
struct PreStage {
  enum class Kind {
    pattern,         // the matches of a pattern, and the text between them
    digits,          // numbers (\p{N}), in groups of three from the right
    decimal_digits,  // the same for \d
    bounded_digits,  // the same for \d, if no letter, mark, \d or connector follows the number
    trailing_space,  // white space at the end of the piece
    space_blocks,    // pieces of only white space, in blocks of the largest power of two up to 512
  };
  Kind kind;
  SplitPattern pattern;
};

inline constexpr size_t kMaxPreStages = 6;

class PreTokenizer {
 public:
  /// Error: internal for a family that is missing or whose pattern is not supported (a bug in tessera).
  static Result<PreTokenizer> create(std::string_view family);

  /// The words of a text in order; concatenated they equal the text. The pre-tokenizer and the text must outlive this
  /// object.
  class Words {
   public:
    Words(const PreTokenizer& pre, std::string_view text);
    /// The next word; empty at the end.
    std::string_view next();

   private:
    struct Level {
      std::string_view rest;
      size_t n_pending = 0;  // bytes at the front of rest already known to be one match
      bool in_run = false;   // rest begins inside a number (at a group of three) or inside white space (at a block)
    };
    std::string_view cut(const PreStage& stage, Level& level);

    const PreTokenizer* pre_;
    std::array<Level, kMaxPreStages> levels_;
  };

 private:
  std::vector<PreStage> stages_;
};

}  // namespace tessera::text
