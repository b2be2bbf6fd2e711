// Renders of a chat template with marked inputs, from which capabilities.cpp and family_probe.cpp learn what the
// template does with them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/text/chat/capabilities.h"
#include "tessera/text/template/template.h"

namespace tessera::text::probe {

// Words that no template contains.
inline constexpr std::string_view kTool = "qqtool", kSecondTool = "qqsecond";
inline constexpr std::string_view kFirstId = "call00001", kSecondId = "call00002";
inline constexpr std::string_view kKey = "qqkey", kValue = "qqvalue";
inline constexpr std::string_view kNumberKey = "qqnumber", kNumber = "4711";  // a second argument
inline constexpr std::string_view kSystem = "qqsystem", kUser = "qquser", kAnswer = "qqanswer", kResult = "qqresult",
                                  kReasoning = "qqreasoning";

/// The forms in which a template may want a call.
struct CallForm {
  ArgumentForm arguments = ArgumentForm::object;
  CallContent content = CallContent::empty;
};

/// An answer of the assistant with calls.
struct Calls {
  CallForm form{};
  bool is_parallel = false;    // two calls
  bool has_number = false;     // each call has two arguments
  bool has_reasoning = false;  // beside the calls
  std::string_view content{};  // beside the calls
};

/// A template and the variables of its renders.
class Probe {
 public:
  Probe(const jinja::Template& chat_template, std::string_view bos, std::string_view eos)
      : template_(chat_template), bos_(bos), eos_(eos) {}

  bool enable_thinking = false;
  bool add_generation_prompt = false;
  bool has_tools = false;

  /// Returns the prompt, or "" if the template fails. add_messages(heap, list) adds the conversation. Each render has
  /// values of its own, since a template may change lists.
  template <class AddMessages>
  std::string render(AddMessages add_messages) const {
    jinja::Heap heap;
    jinja::List* messages = heap.create_list();
    add_messages(heap, *messages);
    return render_list(heap, messages);
  }

 private:
  std::string render_list(jinja::Heap& heap, jinja::List* messages) const;

  const jinja::Template& template_;
  std::string_view bos_, eos_;
};

jinja::Value message(jinja::Heap& heap, std::string_view role, const jinja::Value& content);
/// The result of a call.
jinja::Value result(jinja::Heap& heap, std::string_view name, std::string_view id);
void add_user(jinja::Heap& heap, jinja::List& messages);
/// Adds an answer with calls, without their results.
void add_calls(jinja::Heap& heap, jinja::List& messages, const Calls& calls);

}  // namespace tessera::text::probe
