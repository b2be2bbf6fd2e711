// tessera_experimental.h: the graphs of steps.
#include "tessera/capi/pieces.h"
#include "tessera/observe/graph_report.h"
#include "tessera/tessera_experimental.h"

using namespace tessera;
using capi::guarded;

namespace {

Result<std::string> graph_text(const observe::GraphReport& report, int32_t format) {
  switch (format) {
    case TESSERA_GRAPH_JSON:
      return observe::graph_json(report) + "\n";
    case TESSERA_GRAPH_DOT:
      return observe::graph_dot(report);
    default:
      return observe::graph_page(report);
  }
}

}  // namespace

tessera_status tessera_session_graph(tessera_session* session, int32_t format, int64_t n_tokens,
                                     tessera_write_function write, void* user, tessera_cancel* cancel,
                                     tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(session, "session"));
    if (format < TESSERA_GRAPH_JSON || format > TESSERA_GRAPH_PAGE)
      return fail(ErrorCode::invalid_argument, "format: {}, want TESSERA_GRAPH_JSON, _DOT or _PAGE", format);
    if (n_tokens < 0) return fail(ErrorCode::invalid_argument, "n_tokens: {}, want 0 or more", n_tokens);
    TESSERA_TRY(capi::require_pointer(write, "write"));
    if (session->trace != nullptr)
      return fail(ErrorCode::invalid_argument, "session: is recorded: call tessera_trace_end() first");
    TESSERA_ASSIGN(const CancelToken* const token, capi::token_of(cancel));
    auto report = observe::measure_steps(*session->session, n_tokens, token);
    TESSERA_TRY(session->session->clear());
    if (!report) return forward_error(report);
    TESSERA_ASSIGN(const std::string text, graph_text(*report, format));
    return capi::write_pieces(text, write, user);
  });
}
