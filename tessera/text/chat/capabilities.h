// Capabilities of a chat template, found by rendering it with marked inputs. The adaptation of messages, the parser of
// replies and `tessera template --caps` read the result.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/text/template/template.h"

namespace tessera::text {

enum class ArgumentForm : uint8_t { none, object, text };
enum class CallContent : uint8_t { empty, null };

struct ChatCapabilities {
  bool string_content = false;                    // content as a text
  bool typed_content = false;                     // content as parts: [{"type": "text", "text": ...}]
  bool system = false;                            // a system message
  bool tools = false;                             // definitions of tools
  ArgumentForm arguments = ArgumentForm::none;    // form in which a call shows its arguments
  bool calls = false;                             // calls of the assistant
  bool results = false;                           // results of tools
  bool results_alone = false;                     // results show without calls, under a role of their own
  CallContent call_content = CallContent::empty;  // content beside a call
  bool parallel = false;                          // several calls in one message
  bool reasoning_last = false;                    // reasoning of the last answer
  bool reasoning_history = false;                 // reasoning of an answer before a user message
  bool reasoning_calls = false;                   // reasoning beside a call
  bool thinking_switch = false;                   // enable_thinking changes the prompt
  std::string generation_prompt;                  // appended by add_generation_prompt
  bool reasoning_marker = false;                  // the source has a mark of reasoning
  bool developer = false;                         // the source knows the role developer
  bool call_id_9 = false;                         // ids of calls are nine letters and digits
  std::string call_example;  // a call as the template writes it, of the function NAME with the arguments {}
};

/// Renders the template up to 19 times, each within the limits of a template. A render that fails counts as no.
ChatCapabilities probe_capabilities(const jinja::Template& chat_template, std::string_view bos, std::string_view eos);

}  // namespace tessera::text
