// Log of a training run: losses as lines of JSON, each written as soon as it is known.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "tessera/train/run.h"

namespace tessera::cli {

class TrainLog {
 public:
  /// path "": write nothing. appends: a resumed run continues the file. Errors: io.
  static Result<TrainLog> open(const std::string& path, bool appends);

  void add_step(const train::StepReport& step);
  void add_eval(int64_t step, double loss);
  /// Errors: io (a line could not be written).
  Result<> finish();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void add(const std::string& line);

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  bool failed_ = false;
};

}  // namespace tessera::cli
