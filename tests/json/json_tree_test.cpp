// Trees of JSON are freed without taking memory.
#include <nlohmann/json.hpp>
#include <string>

#include "tessera/json/reader.h"
#include "tests/support/failing_allocations.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

using testing::n_until_failure;

// The number of allocations of freeing the tree of a text.
int64_t allocations_of_freeing(const std::string& text) {
  auto tree = read_json_tree(text);
  EXPECT_OK(tree);
  constexpr int64_t kMany = 1'000'000;
  n_until_failure = kMany;
  tree->reset();
  return kMany - n_until_failure.exchange(-1);
}

TEST(JsonTree, IsFreedWithoutMemory) {
  const std::string deep = std::string(kMaxJsonDepth, '[') + std::string(kMaxJsonDepth, ']');
  const std::string deep_object = R"({"a":[{"b":{"c":[[],{}]},"d":"text"},[1,2,[3]],{}]})";
  std::string wide = "[";
  for (int i = 0; i < 1000; ++i) wide += R"({"key":[1,"a text that is longer than a small one"]},)";
  wide += "null]";
  for (const std::string& text :
       {std::string("1"), std::string("[]"), std::string(R"("text")"), deep, deep_object, wide})
    EXPECT_EQ(allocations_of_freeing(text), 0) << text.substr(0, 100);
}

TEST(JsonTree, IsTheValueOfTheText) {
  const std::string text = R"({"z":[1,{"a":null}],"b":"c"})";
  ASSERT_OK_AND_ASSIGN(const JsonTree tree, read_json_tree(text));
  EXPECT_EQ(tree->dump(), text);
  EXPECT_ERROR(read_json_tree("[1,"), "not JSON: byte 3");
}

}  // namespace
}  // namespace tessera
