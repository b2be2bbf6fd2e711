// Talks with a model from C++20: each line of the input is a message. The first part of this file, namespace tsr, wraps
// the interface of C; copy it into a program.
//
//     c++ -std=c++20 chat.cpp $(pkg-config --cflags --libs tessera) -o chat
//     ./chat MODEL.gguf [--template chatml] [--tokens 64]
#include <tessera/tessera.h>

#include <functional>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tsr {

/// The error of a call as an exception.
struct Failure : std::runtime_error {
  explicit Failure(const tessera_error& error) : std::runtime_error(error.text), status(error.status) {}
  tessera_status status;
};

/// Calls a function that returns a status and takes an error last.
template <class... Wanted, class... Given>
void call(tessera_status (*function)(Wanted...), const Given&... given) {
  tessera_error error = TESSERA_ERROR_INIT;
  if (function(given..., &error) != TESSERA_OK) throw Failure(error);
}

/// One reference to a handle.
template <class T, void (*release)(T*)>
class Handle {
 public:
  Handle() = default;
  /// Calls a function that creates the handle, which is its last argument before the error.
  template <class... Wanted, class... Given>
  explicit Handle(tessera_status (*create)(Wanted...), const Given&... given) {
    T* created = nullptr;
    call(create, given..., &created);
    handle_.reset(created);
  }
  operator T*() const { return handle_.get(); }

 private:
  struct Release {
    void operator()(T* handle) const { release(handle); }
  };
  std::unique_ptr<T, Release> handle_;
};
using Runtime = Handle<tessera_runtime, tessera_runtime_release>;
using Model = Handle<tessera_model, tessera_model_release>;
using Session = Handle<tessera_session, tessera_session_release>;
using Sampler = Handle<tessera_sampler, tessera_sampler_release>;
using Template = Handle<tessera_template, tessera_template_release>;

/// Returns the items that a function writes, which says how many it needs. Calls write(items, room, &needed, &error).
template <class Items, class Write>
Items written(Write&& write) {
  Items items;
  uint64_t needed = 256;
  tessera_error error = TESSERA_ERROR_INIT;
  do {
    items.resize(needed);
  } while (write(items.data(), items.size(), &needed, &error) == TESSERA_LIMIT && needed > items.size());
  if (error.status != TESSERA_OK) throw Failure(error);
  items.resize(needed);
  return items;
}

/// Options of any kind, with their defaults.
template <class T>
T options(void (*init)(T*, size_t)) {
  T defaults;
  init(&defaults, sizeof defaults);
  return defaults;
}

}  // namespace tsr

namespace {

std::string quoted(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') json += '\\';
    if (c >= 0 && c < ' ')
      json.append("\\u00").append({kDigits[static_cast<size_t>(c) / 16], kDigits[static_cast<size_t>(c) % 16]});
    else
      json += c;
  }
  return json + '"';
}

class Chat {
 public:
  Chat(const char* path, const char* chat_template, int64_t n_tokens)
      : runtime_(tessera_runtime_create, nullptr),
        model_(tessera_model_open, runtime_, path, nullptr),
        template_(tessera_template_open, model_, chat_template, -1, 0) {
    tsr::call(tessera_model_load, model_, nullptr, nullptr, nullptr);
    session_ = tsr::Session(tessera_session_create, model_, nullptr);
    auto sampling = tsr::options(tessera_sampler_options_init);
    sampling.temperature = 0;  // always the most probable token
    sampler_ = tsr::Sampler(tessera_sampler_create, model_, &sampling, tessera_session_n_ctx(session_));
    generate_ = tsr::options(tessera_generation_options_init);
    generate_.n_predict = n_tokens;
    generate_.flags = TESSERA_GENERATE_SPECIAL;
  }

  /// Answers a message. `show` gets the pieces of the reply as the model writes them.
  void answer(std::string_view message, std::function<void(std::string_view)> show) {
    messages_ += (messages_.empty() ? "" : ",") + ("{\"role\": \"user\", \"content\": " + quoted(message) + "}");
    const std::string messages = "[" + messages_ + "]";
    uint64_t reply_at = 0;
    const auto prompt = tsr::written<std::string>([&](char* to, uint64_t room, uint64_t* needed, tessera_error* error) {
      return tessera_template_render(template_, messages.c_str(), -1, nullptr, to, room, needed, &reply_at, error);
    });
    const auto tokens =
        tsr::written<std::vector<int32_t>>([&](int32_t* to, uint64_t room, uint64_t* needed, tessera_error* error) {
          return tessera_template_tokenize(template_, messages.c_str(), -1, nullptr, to, room, needed, error);
        });
    struct Reply {
      std::string text{};
      std::function<void(std::string_view)> show;
      int32_t stop = TESSERA_STOP_NONE;
    } reply{.show = std::move(show)};
    const auto take_token = [](void* user, const tessera_generated* next) -> int32_t {
      auto& to = *static_cast<Reply*>(user);
      const std::string_view piece(next->text, next->n_bytes);
      to.text += piece;
      to.show(piece);
      to.stop = next->stop;
      return 0;
    };
    tsr::call(tessera_generate, session_, sampler_, 0, &generate_, tokens.data(), tokens.size(), take_token, &reply,
              nullptr);
    auto parse = tsr::options(tessera_reply_options_init);
    parse.prompt = prompt.c_str() + reply_at;
    parse.end = reply.stop == TESSERA_STOP_END ? TESSERA_REPLY_ENDED : TESSERA_REPLY_CUT;
    const auto parsed = tsr::written<std::string>([&](char* to, uint64_t room, uint64_t* needed, tessera_error* error) {
      return tessera_reply_parse(template_, reply.text.data(), static_cast<int64_t>(reply.text.size()), &parse, to,
                                 room, needed, error);
    });
    messages_.append(",").append(parsed.c_str());
  }

 private:
  tsr::Runtime runtime_;
  tsr::Model model_;
  tsr::Template template_;
  tsr::Session session_;
  tsr::Sampler sampler_;
  tessera_generation_options generate_{};
  std::string messages_;  // JSON, without brackets
};

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  const char* chat_template = nullptr;
  int64_t n_tokens = 0;
  for (size_t i = 1; i + 1 < arguments.size(); i += 2) {
    if (arguments[i] == "--template") chat_template = arguments[i + 1].data();
    if (arguments[i] == "--tokens") n_tokens = std::stoll(std::string(arguments[i + 1]));
  }
  if (arguments.empty()) {
    std::cerr << "usage: chat MODEL.gguf [--template NAME] [--tokens N]\n";
    return 2;
  }
  try {
    Chat chat(arguments[0].data(), chat_template, n_tokens);
    for (std::string line; std::getline(std::cin, line);) {
      chat.answer(line, [](std::string_view piece) { std::cout << piece << std::flush; });
      std::cout << '\n';
    }
  } catch (const std::exception& failure) {
    std::cerr << "error: " << failure.what() << '\n';
    return 1;
  }
}
