// Attention over the paged cache, which each backend prepares in its own way.
#include "tessera/gpu/step.h"

namespace tessera::gpu {

const OpKernel op_kernels::paged_attention{.own = OwnKernel::attention};

}  // namespace tessera::gpu
