// Metadata values as JSON, for programs that show the keys of a model file.
#pragma once

#include <string_view>

#include "tessera/base/function_ref.h"
#include "tessera/gguf/value.h"

namespace tessera {

/// Receives a JSON text in pieces. An error ends it.
using JsonSink = FunctionRef<Result<>(std::string_view)>;

/// Writes a value with all elements of its arrays, without spaces or line feeds. Integers are exact. Floats have the
/// fewest digits that give their value again, and are null if they are not finite. Bytes of strings that are not UTF-8
/// become U+FFFD. Errors: those of the sink.
Result<> write_json(const GgufValue& value, JsonSink sink);

}  // namespace tessera
