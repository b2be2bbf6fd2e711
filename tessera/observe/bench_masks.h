// The cost of masks of grammars, as MaskBench measures it: schemas are compiled, and their instances are read token by
// token with the mask before each. `tessera bench --masks` prints the result.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/text/grammar/grammar.h"
#include "tessera/text/grammar/mask_vocab.h"
#include "tessera/text/tokenizer.h"

namespace tessera::observe {

struct MaskBenchCase {
  std::string schema;  // JSON
  struct Test {
    std::string text;  // JSON
    bool is_valid = false;
  };
  std::vector<Test> tests;
};

/// Times in microseconds.
struct MaskBenchRow {
  std::string refusal{}, keyword{};  // why the schema cannot be compiled; empty: it can
  double compile = 0;
  double first_mask = 0;        // from the schema to the first mask of a text
  std::vector<double> masks{};  // a token is read and the tokens that fit after it are known
  size_t n_forced_tokens = 0;   // of them, those at which the grammar left no choice
  size_t n_wrong_accepts = 0;   // tests
  size_t n_wrong_rejects = 0;
  size_t first_wrong = 0;  // place of the first such test
};

/// Measures a schema. Each call starts with no knowledge about it. Errors: those of Tokenizer::tokenize().
Result<MaskBenchRow> bench_masks(const MaskBenchCase& test, const text::grammar::JsonOutput& output,
                                 const text::Tokenizer& tokenizer,
                                 const std::shared_ptr<const text::grammar::MaskVocab>& vocab);

}  // namespace tessera::observe
