// Cuts a text into the words that BPE merges within, as tokenizer.ggml.pre names it. A family is a list of stages,
// each cutting the pieces of the one before; the rows of pre_tokenizers.def give every accepted name its family.
// Called by the BPE tokenizer. Linear time and constant memory: a word is cut off the front at a time.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/text/split_pattern.h"

namespace tessera::text {

/// What else a name decides, as bits.
enum PreFlag : unsigned {
  kAddBos = 1,          // add_bos is the default
  kAddSep = 2,          // add_sep is the default
  kNoDefaultBos = 4,    // there is no BOS unless the file names one
  kWholeWords = 8,      // a word that is a token is that token, whatever the merges say
  kRawUtf8 = 16,        // tokens are spelled in UTF-8 and bytes as <0xHH>; else in GPT-2's signs for bytes
  kEscapeSpaces = 32,   // spaces are U+2581
  kWholeNewlines = 64,  // kWholeWords for words of newlines only
  kDropSpaces = 128,    // white space between words is no token
};

struct PreRow {
  std::string_view name;
  std::string_view family;
  unsigned flags;
};

/// All names that are known.
std::span<const PreRow> pre_rows();

/// The row of a name of tokenizer.ggml.pre, or null.
const PreRow* find_pre(std::string_view name);

/// The row that stands in for a name nobody knows: "default".
const PreRow& fallback_pre();

/// One cut of a text.
struct PreStage {
  enum class Kind {
    pattern,         // the matches of a pattern, and what lies between them
    digits,          // numbers (\p{N}), in groups of three from the right
    decimal_digits,  // the same of \d
    bounded_digits,  // the same of \d, where no letter, mark, \d or connector follows the number
    trailing_space,  // white space at the end of the piece
    space_blocks,    // pieces of white space alone, in blocks of the largest power of two up to 512
  };
  Kind kind;
  SplitPattern pattern;
};

inline constexpr size_t kMaxPreStages = 6;

class PreTokenizer {
 public:
  /// Error: internal for a family that is not there or whose pattern is not understood (a bug of ours).
  static Result<PreTokenizer> create(std::string_view family);

  /// The words of a text in order, together the text. The pre-tokenizer and the text must outlive it.
  class Words {
   public:
    Words(const PreTokenizer& pre, std::string_view text);
    /// The next word; empty at the end.
    std::string_view next();

   private:
    struct Level {
      std::string_view rest;
      size_t n_pending = 0;  // bytes at the front of rest that are known to be one match
      bool in_run = false;   // rest begins inside a number, at a group of three, or inside white space, at a block
    };
    std::string_view cut(const PreStage& stage, Level& level);

    const PreTokenizer* pre_;
    std::array<Level, kMaxPreStages> levels_;
  };

 private:
  std::vector<PreStage> stages_;
};

}  // namespace tessera::text
