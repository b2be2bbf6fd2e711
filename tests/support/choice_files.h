// Writes binary files of multiple choices for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace tessera::testing {

struct BinaryTask {
  std::string question;
  std::vector<std::string> answers;
  std::vector<int32_t> labels;
};

/// Returns the bytes of a value, little-endian like the machine.
inline std::string u32(uint32_t value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// Returns the file of these tasks. Each has a second list with one answer.
inline std::string binary_tasks(const std::vector<BinaryTask>& tasks) {
  const auto text = [](const std::string& s) { return u32(static_cast<uint32_t>(s.size())) + s; };
  std::string header = u32(static_cast<uint32_t>(tasks.size())), body;
  for (const BinaryTask& task : tasks) {
    header += u32(static_cast<uint32_t>(4 + 4 * tasks.size() + body.size()));
    body += text(task.question) + u32(static_cast<uint32_t>(task.answers.size()));
    for (const std::string& answer : task.answers) body += text(answer);
    for (const int32_t label : task.labels) body += u32(static_cast<uint32_t>(label));
    body += u32(1) + text("unused") + u32(0);
  }
  return header + body;
}

}  // namespace tessera::testing
