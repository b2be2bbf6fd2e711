#include "tessera/base/memory_nodes.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace tessera {

namespace {

constexpr unsigned long kMaxNodes = 1024;  // maximum of Linux; the mask must cover all nodes of the kernel build
constexpr unsigned long kWordBits = 8 * sizeof(unsigned long);
using NodeMask = std::array<unsigned long, kMaxNodes / kWordBits>;

struct AllowedNodes {
  NodeMask mask{};
  std::vector<int> nodes;
};

Result<AllowedNodes> allowed_nodes() {
  AllowedNodes allowed;
  if (::syscall(SYS_get_mempolicy, nullptr, allowed.mask.data(), kMaxNodes, nullptr, MPOL_F_MEMS_ALLOWED) != 0) {
    if (errno != ENOSYS) return fail(ErrorCode::unsupported, "memory nodes: get_mempolicy: {}", std::strerror(errno));
    allowed.nodes = {0};
    return allowed;
  }
  for (unsigned long node = 0; node < kMaxNodes; ++node)
    if ((allowed.mask[node / kWordBits] >> (node % kWordBits) & 1) != 0)
      allowed.nodes.push_back(static_cast<int>(node));
  return allowed;
}

}  // namespace

Result<std::vector<int>> memory_nodes() {
  TESSERA_ASSIGN(AllowedNodes allowed, allowed_nodes());
  return std::move(allowed.nodes);
}

Result<> interleave_pages(std::span<std::byte> mapping) {
  TESSERA_ASSIGN(const AllowedNodes allowed, allowed_nodes());
  // The system call uses one bit less than its argument.
  const long refused =
      ::syscall(SYS_mbind, mapping.data(), mapping.size(), MPOL_INTERLEAVE, allowed.mask.data(), kMaxNodes + 1, 0);
  if (refused != 0 && allowed.nodes.size() > 1)
    return fail(ErrorCode::unsupported, "{} memory nodes: mbind: {}", allowed.nodes.size(), std::strerror(errno));
  return {};
}

}  // namespace tessera
