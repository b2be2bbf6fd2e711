#include "tessera/base/bytes.h"

#include "tests/support/testing.h"

namespace tessera {
namespace {

constexpr uint8_t kRaw[] = {0x01, 0x02, 0x03, 0x04, 0x00, 0x00, 0x80, 0xbf, 0xff};
const std::span<const std::byte> kBytes = std::as_bytes(std::span(kRaw));

TEST(ByteReader, ReadsLittleEndian) {
  ByteReader reader(kBytes);
  EXPECT_EQ(reader.read<uint32_t>().value(), 0x04030201u);
  EXPECT_EQ(reader.read<float>().value(), -1.0f);
  EXPECT_EQ(reader.read<int8_t>().value(), -1);
  EXPECT_EQ(reader.remaining(), 0u);
}

TEST(ByteReader, FailedReadSaysWhereAndLeavesTheCursor) {
  ByteReader reader(kBytes);
  ASSERT_OK(reader.take(5));
  EXPECT_ERROR(reader.read<uint64_t>(), "truncated: 8 bytes wanted at byte 5, 4 left");
  EXPECT_EQ(reader.offset(), 5u);
  EXPECT_OK(reader.read<uint32_t>());
}

TEST(ByteReader, HugeLengthIsRefused) {
  ByteReader reader(kBytes);
  ASSERT_OK(reader.take(1));
  EXPECT_ERROR(reader.take(UINT64_MAX), "18446744073709551615 bytes wanted at byte 1, 8 left");
}

TEST(ByteReader, TakesNothingFromNothing) {
  ByteReader reader({});
  EXPECT_OK(reader.take(0));
  EXPECT_ERROR(reader.read<uint8_t>(), "truncated");
}

TEST(ByteReader, ReadsUnalignedValues) {
  ByteReader reader(kBytes);
  ASSERT_OK(reader.take(1));
  EXPECT_EQ(reader.read<uint32_t>().value(), 0x00040302u);
}

}  // namespace
}  // namespace tessera
