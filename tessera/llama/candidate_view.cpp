#include <algorithm>
#include <limits>

#include "tessera/llama/sampler.h"

namespace tessera::llama {

Result<CandidateView> CandidateView::of_array(llama_token_data_array* array) {
  if (array == nullptr) return fail(ErrorCode::invalid_argument, "cur_p: is NULL");
  TESSERA_TRY(read_items(array->data, array->size, "cur_p->data"));
  CandidateView view;
  view.array_ = array;
  view.capacity_ = array->size;
  view.is_in_array_ = true;
  view.is_untouched_ = false;
  return view;
}

sample::Candidates& CandidateView::candidates() {
  is_untouched_ = false;
  if (!is_in_array_) return candidates_;
  std::vector<sample::Candidate> list;
  list.reserve(array_->size);
  for (const llama_token_data& one : std::span(array_->data, array_->size)) list.push_back({one.id, one.logit, 0});
  candidates_.assign_list(list);
  is_in_array_ = false;
  return candidates_;
}

sample::Candidates& CandidateView::candidates_for(int32_t highest_id) {
  sample::Candidates& found = candidates();
  if (std::cmp_greater_equal(highest_id, logits_.size())) found.items();  // a list may have any ids
  return found;
}

void CandidateView::restrict_to(const text::grammar::TokenRow& row) {
  if (is_untouched_) {
    std::vector<uint64_t> words(row.n_words());
    row.write(words);
    candidates().assign(logits_, words);
    return;
  }
  if (is_in_array_) {
    for (llama_token_data& one : std::span(array_->data, array_->size))
      if (!row.contains(one.id)) one.logit = -std::numeric_limits<float>::infinity();
    array_->sorted = false;
    return;
  }
  candidates().transform([&](const sample::Candidate& one) {
    return row.contains(one.id) ? one.logit : -std::numeric_limits<float>::infinity();
  });
}

llama_token_data_array& CandidateView::in_array() {
  if (is_in_array_) return *array_;
  if (candidates_.selected()) selected_ = candidates_.selected()->id;
  candidates_.softmax();
  const auto items = candidates_.in_draw_order();
  if (array_ == nullptr) {
    own_data_.resize(items.size());
    own_array_.data = own_data_.data();
    array_ = &own_array_;
    capacity_ = items.size();
  }
  array_->size = std::min(items.size(), capacity_);
  array_->selected = -1;
  for (size_t i = 0; i < array_->size; ++i) {
    array_->data[i] = {.id = items[i].id, .logit = items[i].logit, .p = static_cast<float>(items[i].prob)};
    if (selected_ == items[i].id) array_->selected = static_cast<int64_t>(i);
  }
  array_->sorted = std::ranges::is_sorted(items, sample::better);
  is_in_array_ = true;
  return *array_;
}

void CandidateView::apply_foreign(llama_sampler& sampler) {
  llama_token_data_array& array = in_array();
  is_untouched_ = false;
  sampler.iface->apply(&sampler, &array);
  const bool has_selected = array.selected >= 0 && std::cmp_less(array.selected, array.size);
  selected_ = has_selected ? std::optional(array.data[array.selected].id) : std::nullopt;
}

void CandidateView::write_back() { in_array(); }

std::optional<int32_t> CandidateView::selected() {
  if (!is_in_array_ && candidates_.selected()) return candidates_.selected()->id;
  return selected_;
}

}  // namespace tessera::llama
