#include "tessera/text/template/runtime.h"

#include "tessera/base/index.h"

namespace tessera::text::jinja {

Result<> Runtime::spend(uint64_t n_steps) {
  if (n_steps > kMaxSteps - n_steps_) [[unlikely]]
    return fail(ErrorCode::limit, "more than {} steps", kMaxSteps);
  n_steps_ += n_steps;
  return {};
}

Result<> Runtime::spend_values(uint64_t n_values) {
  if (n_values > kMaxValues) return fail(ErrorCode::limit, "more than {} values", kMaxValues);
  return spend(n_values);  // limits their sum
}

Result<Value> Runtime::text(std::string_view bytes, Origin origin) {
  if (bytes.size() > MarkedTextBuilder::kMaxBytes) return fail(ErrorCode::limit, "text above 8 MiB");
  TESSERA_TRY(spend_bytes(bytes.size()));
  return heap_.text(bytes, origin);
}

Result<Value> Runtime::text(const MarkedTextBuilder& builder) {
  if (builder.overflowed()) return fail(ErrorCode::limit, "text above 8 MiB");
  TESSERA_TRY(spend_bytes(builder.size()));
  return heap_.text(builder.view());
}

Result<Value> Runtime::slice(const MarkedView& text, size_t begin, size_t end) {
  TESSERA_TRY(spend(text.given_within(begin, end).size() / 8));
  return heap_.slice(text, begin, end);
}

Result<List*> Runtime::create_list(size_t n) {
  TESSERA_TRY(spend_values(n));
  List* list = heap_.create_list();
  list->items.reserve(n);
  return list;
}

Result<Dict*> Runtime::create_dict(size_t n) {
  TESSERA_TRY(spend_values(n));
  Dict* dict = heap_.create_dict();
  dict->entries.reserve(n);
  return dict;
}

Result<> Runtime::enter_call() {
  if (n_calls_ == kMaxCalls) return fail(ErrorCode::limit, "calls nested deeper than {}", kMaxCalls);
  ++n_calls_;
  return {};
}

}  // namespace tessera::text::jinja
