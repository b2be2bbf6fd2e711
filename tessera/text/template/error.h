// From the error of an operation to the error of a template, with its place.
#pragma once

#include <string_view>

#include "tessera/base/result.h"
#include "tessera/text/template/template.h"

namespace tessera::text::jinja {

/// The code of raise_exception: a stop that the template requested.
inline constexpr ErrorCode kRaised = ErrorCode::cancelled;

/// The kind follows from the code: format is syntax, not_found undefined, invalid_argument value, unsupported
/// forbidden, limit limit, and kRaised raised. `at`: byte of the source.
TemplateError error_at(std::string_view source, size_t at, const Error& error);

}  // namespace tessera::text::jinja
