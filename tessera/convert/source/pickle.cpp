// Opcodes and their arguments are those of Python's pickletools, protocols 2 to 5.
#include "tessera/convert/source/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "tessera/base/bytes.h"
#include "tessera/base/index.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

// Opcodes. Those for objects of arbitrary classes are absent on purpose.
enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersid = 'Q',
  kReduce = 'R',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyTuple = ')',
  kEmptyList = ']',
  kEmptyDict = '}',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

constexpr uint8_t kMaxProtocol = 5;
constexpr size_t kMaxLongBytes = 10;  // of the magic number of old files
constexpr size_t kMaxNameBytes = 256;

enum class Symbol : uint8_t {
#define TESSERA_PICKLE_SYMBOL(name, module, in_module) name,
#include "tessera/convert/source/pickle_symbols.def"
#undef TESSERA_PICKLE_SYMBOL
  storage,
};

struct SymbolRow {
  Symbol symbol;
  std::string_view module, name;
};

constexpr auto kSymbols = std::to_array<SymbolRow>({
#define TESSERA_PICKLE_SYMBOL(name, module, in_module) {Symbol::name, module, in_module},
#include "tessera/convert/source/pickle_symbols.def"
#undef TESSERA_PICKLE_SYMBOL
});

}  // namespace

std::string_view Pickle::text(PickleId id) const {
  const Value& text = value(id);
  return {reinterpret_cast<const char*>(bytes_.data()) + text.number, text.n};
}

std::span<const PickleId> Pickle::items(PickleId id) const {
  const Value& of = value(id);
  if (of.kind == Kind::list) return lists_[static_cast<size_t>(of.number)];
  return std::span(tuple_items_).subspan(static_cast<size_t>(of.number), of.n);
}

std::span<const std::pair<PickleId, PickleId>> Pickle::members(PickleId id) const {
  return dictionaries_[static_cast<size_t>(value(id).number)];
}

// The stack machine. An operation that finds too little on the stack, or values of other kinds, is an error.
class PickleMachine {
 public:
  PickleMachine(std::span<const std::byte> bytes, const PickleLimits& limits)
      : limits_(limits), reader_(bytes.first(std::min(bytes.size(), limits.max_bytes))) {
    pickle_.bytes_ = bytes;
  }

  Result<Pickle> run() {
    while (true) {
      at_ = reader_.offset();
      if (at_ == limits_.max_bytes) return fail(ErrorCode::limit, "a pickle of more than {} bytes", limits_.max_bytes);
      TESSERA_ASSIGN(const uint8_t opcode, reader_.read<uint8_t>());
      if (opcode == kStop) break;
      if (auto done = step(opcode); !done) return forward_error(done, fmt::format("pickle, byte {}", at_));
      if (stack_.size() > limits_.max_stack)
        return fail(ErrorCode::limit, "pickle, byte {}: a stack of {}", at_, stack_.size());
      if (pickle_.values_.size() > limits_.max_values)
        return fail(ErrorCode::limit, "pickle, byte {}: more than {} values", at_, limits_.max_values);
    }
    if (stack_.size() != 1 || !marks_.empty())
      return fail(ErrorCode::format, "pickle, byte {}: {} values at its end, want 1", at_, stack_.size());
    pickle_.root_ = stack_.back();
    pickle_.n_bytes_ = reader_.offset();
    return std::move(pickle_);
  }

 private:
  using Kind = Pickle::Kind;
  using Value = Pickle::Value;

  Result<> step(uint8_t opcode) {
    switch (opcode) {
      case kProto:
        return set_protocol();
      case kFrame:
        return read_frame();
      case kMark:
        if (marks_.size() == limits_.max_open)
          return fail(ErrorCode::limit, "more than {} open marks", limits_.max_open);
        marks_.push_back(stack_.size());
        return {};
      case kPop:
        return pop_one();
      case kPopMark:
        return pop_above_mark();
      case kNone:
        return push({.kind = Kind::none});
      case kNewTrue:
      case kNewFalse:
        return push({.kind = Kind::boolean, .number = opcode == kNewTrue});
      case kBinInt:
        return push_integer<int32_t>();
      case kBinInt1:
        return push_integer<uint8_t>();
      case kBinInt2:
        return push_integer<uint16_t>();
      case kLong1:
        return push_long();
      case kBinFloat:
        TESSERA_TRY(reader_.take(sizeof(double)));
        return push({.kind = Kind::real});  // no field of a checkpoint is a real number
      default:
        return step_on_texts(opcode);
    }
  }

  Result<> step_on_texts(uint8_t opcode) {
    switch (opcode) {
      case kShortBinString:
      case kShortBinUnicode:
        return push_text<uint8_t>();
      case kBinString:
      case kBinUnicode:
        return push_text<uint32_t>();
      case kBinUnicode8:
        return push_text<uint64_t>();
      case kBinPut:
        return put<uint8_t>();
      case kLongBinPut:
        return put<uint32_t>();
      case kMemoize:
        return put_at(memo_.size());
      case kBinGet:
        return get<uint8_t>();
      case kLongBinGet:
        return get<uint32_t>();
      case kGlobal:
        return push_global();
      case kStackGlobal:
        return push_stack_global();
      default:
        return step_on_containers(opcode);
    }
  }

  Result<> step_on_containers(uint8_t opcode) {
    switch (opcode) {
      case kEmptyTuple:
        return push_tuple(stack_.size());
      case kTuple1:
      case kTuple2:
      case kTuple3:
        return push_short_tuple(size_t{opcode} - kTuple1 + 1);
      case kTuple:
        return with_values_above_mark(&PickleMachine::push_tuple);
      case kEmptyList:
        pickle_.lists_.emplace_back();
        return push({.kind = Kind::list, .number = to_index(pickle_.lists_.size() - 1)});
      case kEmptyDict:
        return push_dictionary();
      case kAppend:
        TESSERA_TRY(require(2));
        return append(stack_.size() - 1);
      case kAppends:
        return with_values_above_mark(&PickleMachine::append);
      case kSetItem:
        TESSERA_TRY(require(3));
        return set_items(stack_.size() - 2);
      case kSetItems:
        return with_values_above_mark(&PickleMachine::set_items);
      case kBinPersid:
        return push_storage();
      case kReduce:
        return reduce();
      case kBuild:  // attributes of an object, such as the version of a dictionary's format
        return pop_one();
      default:
        return fail(ErrorCode::unsupported, "opcode 0x{:02x}; only tensors are read", opcode);
    }
  }

  // --- the stack

  static int64_t to_index(size_t i) { return static_cast<int64_t>(i); }

  Result<> push(Value value) {
    stack_.push_back(static_cast<PickleId>(pickle_.values_.size()));
    pickle_.values_.push_back(value);
    return {};
  }

  // Values below the topmost mark are out of reach.
  size_t n_reachable() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

  Result<> require(size_t n) const {
    if (n_reachable() < n) return fail(ErrorCode::format, "{} values on the stack, want {}", n_reachable(), n);
    return {};
  }

  Result<> pop_one() {
    TESSERA_TRY(require(1));
    stack_.pop_back();
    return {};
  }

  Result<PickleId> pop(Kind kind) {
    TESSERA_TRY(require(1));
    const PickleId top = stack_.back();
    if (pickle_.kind(top) != kind) return fail(ErrorCode::format, "a value of another kind on the stack");
    stack_.pop_back();
    return top;
  }

  // Takes the topmost mark away. Returns where the values above it begin.
  Result<size_t> above_mark() {
    if (marks_.empty()) return fail(ErrorCode::format, "no mark on the stack");
    const size_t begin = marks_.back();
    marks_.pop_back();
    return begin;
  }

  Result<> pop_above_mark() {
    TESSERA_ASSIGN(const size_t begin, above_mark());
    stack_.resize(begin);
    return {};
  }

  Result<> with_values_above_mark(Result<> (PickleMachine::*operation)(size_t begin)) {
    TESSERA_ASSIGN(const size_t begin, above_mark());
    return (this->*operation)(begin);
  }

  // --- plain values

  Result<> set_protocol() {
    TESSERA_ASSIGN(const uint8_t protocol, reader_.read<uint8_t>());
    if (protocol > kMaxProtocol)
      return fail(ErrorCode::unsupported, "protocol {}, want at most {}", protocol, kMaxProtocol);
    return {};
  }

  Result<> read_frame() {
    TESSERA_ASSIGN(const auto n, reader_.read<uint64_t>());
    if (n > reader_.remaining()) return fail(ErrorCode::format, "a frame of {} bytes, {} left", n, reader_.remaining());
    return {};
  }

  template <class T>
  Result<> push_integer() {
    TESSERA_ASSIGN(const T number, reader_.read<T>());
    return push({.kind = Kind::integer, .number = number});
  }

  // An integer of any length, of which 8 bytes are enough for all but one use.
  Result<> push_long() {
    TESSERA_ASSIGN(const auto n, reader_.read<uint8_t>());
    if (n > kMaxLongBytes) return fail(ErrorCode::limit, "an integer of {} bytes, limit {}", n, kMaxLongBytes);
    const size_t begin = reader_.offset();
    TESSERA_ASSIGN(const auto bytes, reader_.take(n));
    if (n > sizeof(int64_t)) return push({.kind = Kind::big_integer, .n = n, .number = to_index(begin)});
    const bool is_negative = n > 0 && (std::to_integer<uint8_t>(bytes.back()) & 0x80) != 0;
    int64_t number = is_negative ? -1 : 0;
    std::memcpy(&number, bytes.data(), bytes.size());
    return push({.kind = Kind::integer, .number = number});
  }

  template <class Length>
  Result<> push_text() {
    TESSERA_ASSIGN(const Length n, reader_.read<Length>());
    const size_t begin = reader_.offset();
    TESSERA_TRY(reader_.take(n));
    return push({.kind = Kind::text, .n = static_cast<uint32_t>(n), .number = to_index(begin)});
  }

  // --- the memo

  template <class Index>
  Result<> put() {
    TESSERA_ASSIGN(const Index index, reader_.read<Index>());
    return put_at(index);
  }

  // Numbers of the memo are used in order, so one far beyond the last is no honest one.
  Result<> put_at(size_t index) {
    TESSERA_TRY(require(1));
    if (index >= limits_.max_memo) return fail(ErrorCode::limit, "memo {}, limit {}", index, limits_.max_memo);
    if (index >= memo_.size()) memo_.resize(index + 1);
    memo_[index] = stack_.back();
    return {};
  }

  template <class Index>
  Result<> get() {
    TESSERA_ASSIGN(const Index index, reader_.read<Index>());
    if (index >= memo_.size() || !memo_[index]) return fail(ErrorCode::format, "memo {} is empty", index);
    stack_.push_back(*memo_[index]);
    return {};
  }

  // --- symbols

  Result<std::string_view> read_line() {
    const std::string_view rest(reinterpret_cast<const char*>(pickle_.bytes_.data()) + reader_.offset(),
                                reader_.remaining());
    const size_t n = rest.substr(0, kMaxNameBytes + 1).find('\n');
    if (n == std::string_view::npos) return fail(ErrorCode::format, "a name without end");
    TESSERA_TRY(reader_.take(n + 1));
    return rest.substr(0, n);
  }

  Result<> push_global() {
    TESSERA_ASSIGN(const std::string_view module, read_line());
    TESSERA_ASSIGN(const std::string_view name, read_line());
    return push_symbol(module, name);
  }

  Result<> push_stack_global() {
    TESSERA_ASSIGN(const PickleId name, pop(Kind::text));
    TESSERA_ASSIGN(const PickleId module, pop(Kind::text));
    return push_symbol(pickle_.text(module), pickle_.text(name));
  }

  // A symbol of a storage has its type as well.
  Result<> push_symbol(std::string_view module, std::string_view name) {
    const auto row =
        std::ranges::find_if(kSymbols, [&](const SymbolRow& one) { return one.module == module && one.name == name; });
    if (row != kSymbols.end()) return push({.kind = Kind::symbol, .number = static_cast<int64_t>(row->symbol)});
    if (const auto type = find_torch_storage(name); type && module == "torch")
      return push(
          {.kind = Kind::symbol, .n = static_cast<uint32_t>(*type), .number = static_cast<int64_t>(Symbol::storage)});
    return fail(ErrorCode::unsupported, "asks for {}; only tensors are read",
                text::quote_text(fmt::format("{} {}", module.substr(0, kMaxNameBytes), name.substr(0, kMaxNameBytes))));
  }

  // --- containers

  Result<> push_tuple(size_t begin) {
    const size_t first = pickle_.tuple_items_.size(), n = stack_.size() - begin;
    pickle_.tuple_items_.insert(pickle_.tuple_items_.end(), stack_.begin() + to_index(begin), stack_.end());
    stack_.resize(begin);
    return push({.kind = Kind::tuple, .n = static_cast<uint32_t>(n), .number = to_index(first)});
  }

  Result<> push_short_tuple(size_t n) {
    TESSERA_TRY(require(n));
    return push_tuple(stack_.size() - n);
  }

  Result<> push_dictionary() {
    pickle_.dictionaries_.emplace_back();
    return push({.kind = Kind::dictionary, .number = to_index(pickle_.dictionaries_.size() - 1)});
  }

  // Appends the values from `begin` on to the list below them.
  Result<> append(size_t begin) {
    TESSERA_TRY(require(stack_.size() - begin + 1));
    const Value& list = pickle_.value(stack_[begin - 1]);
    if (list.kind != Kind::list) return fail(ErrorCode::format, "an item for a value that is no list");
    auto& items = pickle_.lists_[static_cast<size_t>(list.number)];
    items.insert(items.end(), stack_.begin() + to_index(begin), stack_.end());
    stack_.resize(begin);
    return {};
  }

  // Likewise pairs of keys and values for a dictionary.
  Result<> set_items(size_t begin) {
    TESSERA_TRY(require(stack_.size() - begin + 1));
    const Value& dictionary = pickle_.value(stack_[begin - 1]);
    if (dictionary.kind != Kind::dictionary)
      return fail(ErrorCode::format, "a member for a value that is no dictionary");
    if ((stack_.size() - begin) % 2 != 0) return fail(ErrorCode::format, "a key without a value");
    auto& members = pickle_.dictionaries_[static_cast<size_t>(dictionary.number)];
    for (size_t i = begin; i < stack_.size(); i += 2) members.emplace_back(stack_[i], stack_[i + 1]);
    stack_.resize(begin);
    return {};
  }

  // --- tensors

  // A persistent id: ("storage", class, key, device, number of elements), and in old files a view as sixth item.
  Result<> push_storage() {
    TESSERA_ASSIGN(const PickleId id, pop(Kind::tuple));
    const auto items = pickle_.items(id);
    const auto is = [&](size_t i, Kind kind) { return pickle_.kind(items[i]) == kind; };
    const bool is_storage = (items.size() == 5 || (items.size() == 6 && is(5, Kind::none))) && is(0, Kind::text) &&
                            is(1, Kind::symbol) && is(2, Kind::text) && is(4, Kind::integer) &&
                            pickle_.text(items[0]) == "storage" &&
                            pickle_.integer(items[1]) == static_cast<int64_t>(Symbol::storage);
    if (!is_storage) return fail(ErrorCode::unsupported, "a persistent id that is no storage of elements");
    const int64_t n_elements = pickle_.integer(items[4]);
    if (n_elements < 0) return fail(ErrorCode::format, "a storage of {} elements", n_elements);
    pickle_.storages_.push_back({.type = static_cast<ElementType>(pickle_.value(items[1]).n),
                                 .key = pickle_.text(items[2]),
                                 .n_elements = n_elements});
    return push({.kind = Kind::storage, .number = to_index(pickle_.storages_.size() - 1)});
  }

  Result<> reduce() {
    TESSERA_ASSIGN(const PickleId arguments, pop(Kind::tuple));
    TESSERA_ASSIGN(const PickleId callee, pop(Kind::symbol));
    const auto items = pickle_.items(arguments);
    const auto wrong = [&] {
      return fail(ErrorCode::format, "{} arguments of a kind that is not known", items.size());
    };
    switch (static_cast<Symbol>(pickle_.integer(callee))) {
      case Symbol::rebuild_tensor:
        return items.size() == 4 ? push_tensor(items) : wrong();
      case Symbol::rebuild_tensor_v2:
        return items.size() == 6 || items.size() == 7 ? push_tensor(items) : wrong();
      case Symbol::rebuild_parameter:
        if (items.size() != 3 || pickle_.kind(items[0]) != Kind::tensor) return wrong();
        stack_.push_back(items[0]);
        return {};
      case Symbol::size:
        if (items.size() != 1 || pickle_.kind(items[0]) != Kind::tuple) return wrong();
        stack_.push_back(items[0]);
        return {};
      case Symbol::ordered_dict:
        return items.empty() ? push_dictionary() : wrong();
      case Symbol::storage:
        return wrong();
    }
    return wrong();
  }

  Result<std::vector<int64_t>> integers(PickleId tuple) const {
    if (pickle_.kind(tuple) != Kind::tuple) return fail(ErrorCode::format, "a shape that is no tuple");
    std::vector<int64_t> numbers;
    for (const PickleId item : pickle_.items(tuple)) {
      if (pickle_.kind(item) != Kind::integer)
        return fail(ErrorCode::format, "a shape with a value that is no integer");
      numbers.push_back(pickle_.integer(item));
    }
    return numbers;
  }

  Result<> push_tensor(std::span<const PickleId> items) {
    if (pickle_.kind(items[0]) != Kind::storage || pickle_.kind(items[1]) != Kind::integer)
      return fail(ErrorCode::format, "a tensor without a storage or an offset");
    PickledTensor tensor{.storage = static_cast<size_t>(pickle_.value(items[0]).number),
                         .offset = pickle_.integer(items[1])};
    TESSERA_ASSIGN(tensor.shape, integers(items[2]));
    TESSERA_ASSIGN(tensor.strides, integers(items[3]));
    pickle_.tensors_.push_back(std::move(tensor));
    return push({.kind = Kind::tensor, .number = to_index(pickle_.tensors_.size() - 1)});
  }

  const PickleLimits limits_;
  ByteReader reader_;
  size_t at_ = 0;
  Pickle pickle_;
  std::vector<PickleId> stack_;
  std::vector<size_t> marks_;  // sizes of the stack
  std::vector<std::optional<PickleId>> memo_;
};

Result<Pickle> Pickle::read(std::span<const std::byte> bytes, const PickleLimits& limits) {
  return PickleMachine(bytes, limits).run();
}

}  // namespace tessera::convert
