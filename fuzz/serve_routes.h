// The routes that serve_fuzz sends bodies to, shared with the program that writes its seeds.
#pragma once

#include <array>
#include <string_view>

namespace tessera::fuzz {

inline constexpr std::array<std::string_view, 29> kRoutes{
    "/completion",
    "/infill",
    "/tokenize",
    "/detokenize",
    "/apply-template",
    "/embedding",
    "/rerank",
    "/slots/0?action=erase",
    "/v1/completions",
    "/v1/chat/completions",
    "/v1/chat/completions/control",
    "/v1/chat/completions/input_tokens",
    "/v1/responses",
    "/v1/responses/input_tokens",
    "/v1/embeddings",
    "/v1/rerank",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/api/generate",
    "/api/chat",
    "/api/embed",
    "/api/embeddings",
    "/api/show",
    "/models/load",
    "/models/unload",
    "/props",
    "/lora-adapters",
    "/cache?action=clear",
    "/v1/streams/lookup",
};

}  // namespace tessera::fuzz
