// Values of the template language: the data model of Python as far as templates need it. All objects of a render are in
// one Heap and live until its end, so values are plain copies, cycles are harmless and nothing is freed one by one.
#pragma once

#include <cstdint>
#include <map>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/text/marked_text.h"

namespace tessera::text::jinja {

struct Dict;
struct Function;
struct List;
struct Loop;
struct Method;
struct Namespace;
struct Scope;
struct Cycler;
struct Joiner;
struct Macro;

enum class Kind : uint8_t {
  missing,  // no value: an argument that was not passed, a variable that was not set. Templates never see it.
  undefined,
  none,
  boolean,
  integer,
  real,
  text,
  list,
  tuple,
  dict,
  name_space,
  function,
  method,
  macro,
  loop,
  cycler,
  joiner,
};

/// "text", "integer", ...: names of kinds for messages.
std::string_view to_string(Kind kind);

/// One value. Scalars are inside, all else is a pointer into a heap.
class Value {
 public:
  constexpr Value() : kind_(Kind::missing), integer_(0) {}
  static constexpr Value undefined(const MarkedView* name = nullptr) { return {Kind::undefined, name}; }
  static constexpr Value none() { return Value(Kind::none, int64_t{0}); }
  static constexpr Value boolean(bool b) { return Value(Kind::boolean, int64_t{b}); }
  static constexpr Value integer(int64_t i) { return Value(Kind::integer, i); }
  static Value size(size_t n) { return integer(static_cast<int64_t>(n)); }
  static constexpr Value real(double f) {
    Value value(Kind::real, int64_t{0});
    value.real_ = f;
    return value;
  }
  static constexpr Value text(const MarkedView* text) { return {Kind::text, text}; }
  static constexpr Value list(List* list) { return {Kind::list, list}; }
  static constexpr Value tuple(List* list) { return {Kind::tuple, list}; }
  static constexpr Value dict(Dict* dict) { return {Kind::dict, dict}; }
  static constexpr Value of(Namespace* object) { return {Kind::name_space, object}; }
  static constexpr Value of(const Function* object) { return {Kind::function, object}; }
  static constexpr Value of(Method* object) { return {Kind::method, object}; }
  static constexpr Value of(Macro* object) { return {Kind::macro, object}; }
  static constexpr Value of(Loop* object) { return {Kind::loop, object}; }
  static constexpr Value of(Cycler* object) { return {Kind::cycler, object}; }
  static constexpr Value of(Joiner* object) { return {Kind::joiner, object}; }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_missing() const { return kind_ == Kind::missing; }
  bool is_undefined() const { return kind_ == Kind::undefined; }
  bool is_none() const { return kind_ == Kind::none; }
  bool is_text() const { return kind_ == Kind::text; }
  bool is_integer() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }  // Python's bool is an int
  bool is_number() const { return is_integer() || kind_ == Kind::real; }
  bool is_sequence() const { return kind_ == Kind::list || kind_ == Kind::tuple; }

  // The accessors require the kind.
  bool as_boolean() const { return integer_ != 0; }
  int64_t as_integer() const { return integer_; }
  double as_real() const { return kind_ == Kind::real ? real_ : static_cast<double>(integer_); }
  const MarkedView& as_text() const { return *static_cast<const MarkedView*>(pointer_); }
  std::string_view bytes() const { return as_text().bytes; }
  List& as_list() const { return *static_cast<List*>(const_cast<void*>(pointer_)); }
  Dict& as_dict() const { return *static_cast<Dict*>(const_cast<void*>(pointer_)); }
  /// The object of the other kinds.
  template <class Object>
  Object& as() const {
    return *static_cast<Object*>(const_cast<void*>(pointer_));
  }
  /// The name of an undefined variable or member; empty if unknown.
  std::string_view undefined_name() const { return pointer_ == nullptr ? std::string_view() : as_text().bytes; }
  const void* identity() const { return pointer_; }

 private:
  constexpr Value(Kind kind, const void* pointer) : kind_(kind), pointer_(pointer) {}
  constexpr Value(Kind kind, int64_t integer) : kind_(kind), integer_(integer) {}

  Kind kind_;
  union {
    int64_t integer_;
    double real_;
    const void* pointer_;
  };
};
static_assert(sizeof(Value) == 16);

/// A list or a tuple.
struct List {
  explicit List(std::pmr::memory_resource* memory) : items(memory) {}
  std::pmr::vector<Value> items;
  bool is_group = false;  // of the filter groupby: the elements are also the members `grouper` and `list`
};

inline constexpr MarkedView kEmptyText{};

/// True if the value may be a key of a dict: a scalar, a text, or a tuple of these.
bool is_hashable(const Value& value);

/// A strict weak order of hashable values. Values that are equal in Python (1, 1.0 and true) are equivalent.
struct KeyLess {
  bool operator()(const Value& a, const Value& b) const;
};

/// A dict in order of insertion. Keys are hashable.
struct Dict {
  struct Entry {
    Value key;
    Value value;
  };
  explicit Dict(std::pmr::memory_resource* memory) : entries(memory), index(memory) {}

  /// Returns the value of a key, or null.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  /// Takes the entries of another dict.
  void assign(const Dict& other);
  /// Sets the value of a key. A new key comes last; a present key keeps its place.
  void set(const Value& key, const Value& value);

  std::pmr::vector<Entry> entries;

 private:
  static constexpr size_t kMaxScanned = 8;  // larger dicts have an index

  const Entry* find_entry(const Value& key) const;

  std::pmr::map<Value, size_t, KeyLess> index;
};

/// The result of namespace(...), the one object whose attributes a template can set.
struct Namespace {
  explicit Namespace(Dict* members) : members(members) {}
  Dict* members;
};

/// The variable `loop`.
struct Loop {
  const List* items = nullptr;
  size_t n_started = 0;  // iterations so far, with the present one
  int64_t depth0 = 0;
  Value last_changed{};    // arguments of the last loop.changed()
  Scope* outer = nullptr;  // scope of the statement
  uint32_t entry = 0;      // instruction that starts the loop for another list
  bool is_recursive = false;
};

struct Cycler {
  const List* items;
  size_t at = 0;
};

struct Joiner {
  Value separator;
  bool is_used = false;
};

/// A macro and the scope in which its statement ran.
struct Macro {
  uint32_t number;
  Scope* scope;
};

/// The memory of a render and of the variables that it reads.
class Heap {
 public:
  Heap() = default;
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  std::pmr::memory_resource* memory() { return &memory_; }

  /// Creates an object whose destructor never runs.
  template <class Object, class... Args>
  Object* create(Args&&... args) {
    return std::pmr::polymorphic_allocator<>(&memory_).new_object<Object>(std::forward<Args>(args)...);
  }
  List* create_list() { return create<List>(&memory_); }
  Dict* create_dict() { return create<Dict>(&memory_); }

  /// Copies a text into the heap. The text is valid UTF-8.
  Value text(std::string_view bytes, Origin origin = Origin::trusted);
  Value text(const MarkedView& text);
  /// Returns the bytes [begin, end) of a text in this heap, without a copy.
  Value slice(const MarkedView& text, size_t begin, size_t end);

 private:
  std::span<const ByteRange> copy_ranges(std::span<const ByteRange> ranges);
  std::string_view copy_bytes(std::string_view bytes);

  std::pmr::monotonic_buffer_resource memory_{4096};
};

}  // namespace tessera::text::jinja
