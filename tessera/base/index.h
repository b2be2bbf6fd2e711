// Conversion of signed counts and indexes, such as node ids and extents, to the size type of containers.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace tessera {

/// Converts a count or an index that is not negative, or an enumerator, to size_t. Floats need a cast, since they lose
/// digits.
template <class T>
requires std::integral<T> || std::is_enum_v<T>
constexpr size_t to_size(T n) { return static_cast<size_t>(n); }

}  // namespace tessera
