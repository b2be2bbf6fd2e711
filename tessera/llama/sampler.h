// Samplers of llama.h: the objects behind our own, and the candidates on which they and a program's samplers work.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tessera/llama/boundary.h"
#include "tessera/sample/candidates.h"
#include "tessera/text/grammar/token_row.h"

namespace tessera::llama {

/// The candidates for the next token: an array of a program, or the logits of a context. They move between the array
/// and sample::Candidates only where a sampler needs the other form.
class CandidateView {
 public:
  /// Errors: invalid_argument (no array).
  static Result<CandidateView> of_array(llama_token_data_array* array);
  explicit CandidateView(std::span<const float> logits) : logits_(logits) { candidates_.assign(logits); }

  sample::Candidates& candidates();
  /// Candidates that may be changed by tokens up to this id, which may be above all ids of the logits.
  sample::Candidates& candidates_for(int32_t highest_id);
  /// Whether the candidates are an array of a program, not the logits of a context.
  bool is_of_program() const { return logits_.empty(); }
  /// Gives tokens that are not in the row the logit -infinity. In an array of a program they stay.
  void restrict_to(const text::grammar::TokenRow& row);
  /// Lets a program's sampler change an array of the candidates.
  void apply_foreign(llama_sampler& sampler);
  /// Writes the candidates to the program's array.
  void write_back();
  /// The id of the chosen token, if there is one.
  std::optional<int32_t> selected();

 private:
  CandidateView() = default;
  llama_token_data_array& in_array();

  std::span<const float> logits_{};  // of a context; empty: an array of a program
  bool is_untouched_ = true;         // the candidates are all logits
  llama_token_data_array* array_ = nullptr;
  size_t capacity_ = 0;  // of the array
  bool is_in_array_ = false;
  std::vector<llama_token_data> own_data_{};  // of an array over logits
  llama_token_data_array own_array_{};
  sample::Candidates candidates_{};
  std::optional<int32_t> selected_{};
};

/// The work of a sampler. The functions of its llama_sampler_i call it.
class SamplerObject {
 public:
  virtual ~SamplerObject() = default;
  virtual const char* name() const = 0;
  virtual Result<> accept(llama_token token) = 0;
  virtual Result<> apply(CandidateView& view) = 0;
  virtual void reset() = 0;
  /// Errors: unsupported (it has a sampler of a program that cannot be copied).
  virtual Result<std::unique_ptr<SamplerObject>> clone() const = 0;
  /// The seed of its random numbers, if it has some.
  virtual std::optional<uint32_t> seed() const { return std::nullopt; }
};

/// A handle of a sampler, to be freed by llama_sampler_free().
llama_sampler* to_handle(std::unique_ptr<SamplerObject> object);
/// The object of one of our samplers; null for those of programs.
SamplerObject* object_of(const llama_sampler* sampler);
/// Applies any sampler. Errors: those of our samplers.
Result<> apply_to(llama_sampler& sampler, CandidateView& view);

}  // namespace tessera::llama
