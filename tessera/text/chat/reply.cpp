#include "tessera/text/chat/reply.h"

namespace tessera::text {

void join(Reply& reply, std::span<const ReplyDelta> deltas) {
  for (const ReplyDelta& delta : deltas) {
    switch (delta.kind) {
      case ReplyDelta::Kind::content:
        reply.content += delta.text;
        break;
      case ReplyDelta::Kind::reasoning:
        reply.reasoning += delta.text;
        break;
      case ReplyDelta::Kind::call:
        reply.calls.push_back({delta.text, "", delta.id});
        break;
      case ReplyDelta::Kind::arguments:
        reply.calls[delta.call].arguments += delta.text;
        break;
      case ReplyDelta::Kind::warning:
        reply.warnings.push_back(delta.text);
        break;
    }
  }
}

}  // namespace tessera::text
