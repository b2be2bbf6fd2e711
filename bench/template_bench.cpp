// Time to parse a chat template, to probe it and to render a conversation of 100 messages. TEMPLATE names the file of
// the template; without it the built-in template of Llama 3 is measured. bench/vs_jinja2.py compares with Jinja2.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "tessera/text/chat/builtin_templates.h"
#include "tessera/text/chat/chat_template.h"
#include "tessera/text/chat/value_tools.h"

namespace {

using namespace tessera::text;

std::string source() {
  const char* path = std::getenv("TEMPLATE");
  if (path == nullptr) return std::string(*find_builtin_template("llama3"));
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Messages of 200 bytes, as bench/vs_jinja2.py makes them.
jinja::Value messages(jinja::Heap& heap) {
  jinja::List* list = heap.create_list();
  std::string content;
  for (int i = 0; i < 10; ++i) content += "A sentence of 20 b. ";
  for (int i = 0; i < 100; ++i)
    list->items.push_back(make_dict(heap, {{"role", heap.text(i % 2 == 0 ? "user" : "assistant", Origin::given)},
                                           {"content", heap.text(content, Origin::given)}}));
  return jinja::Value::list(list);
}

void parse(benchmark::State& state) {
  const std::string text = source();
  for (auto _ : state) benchmark::DoNotOptimize(jinja::Template::parse(text));
}
BENCHMARK(parse)->Unit(benchmark::kMicrosecond);

void probe(benchmark::State& state) {
  const std::string text = source();
  for (auto _ : state) benchmark::DoNotOptimize(ChatTemplate::create(text, {.bos = "<s>", .eos = "</s>"}));
}
BENCHMARK(probe)->Unit(benchmark::kMicrosecond);

// The template alone, as Jinja2 does it.
void render(benchmark::State& state) {
  const auto parsed = jinja::Template::parse(source());
  for (auto _ : state) {
    jinja::Heap heap;
    const jinja::Variable variables[] = {{"messages", messages(heap)},
                                         {"add_generation_prompt", jinja::Value::boolean(true)},
                                         {"bos_token", heap.text("<s>")}};
    benchmark::DoNotOptimize(parsed->render(heap, variables, {}));
  }
}
BENCHMARK(render)->Unit(benchmark::kMicrosecond);

// With the adaptation of messages and the marks: all that a request costs.
void render_chat(benchmark::State& state) {
  const auto chat_template = ChatTemplate::create(source(), {.bos = "<s>", .eos = "</s>"});
  for (auto _ : state) {
    jinja::Heap heap;
    benchmark::DoNotOptimize(chat_template->render(heap, {.messages = messages(heap)}));
  }
}
BENCHMARK(render_chat)->Unit(benchmark::kMicrosecond);

}  // namespace
