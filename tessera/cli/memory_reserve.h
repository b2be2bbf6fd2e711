// Memory that a server keeps back for the moment when the system has none. Code that may not fail, such as the
// destructors of JSON values, then still gets the little that it needs, and a request in progress ends with an error
// instead of the process.
#pragma once

namespace tessera::cli {

/// Keeps 4 MiB back, and lets operator new of the whole program use them, block by block, when the system has no
/// memory. A part is only for threads that leave functions because of an exception, and for those that serve all
/// requests. After that a thread waits for memory, 50 ms, or 5 s if it serves all requests; then std::bad_alloc is
/// thrown. Call it once, before threads start.
void install_memory_reserve();

/// Whether memory was taken from the reserve and is not back yet. The program should begin nothing new then. Callable
/// from any thread.
bool is_memory_reserve_used();

/// Tries to keep the missing memory back again. To be called now and then, from the thread of
/// install_memory_reserve().
void refill_memory_reserve();

}  // namespace tessera::cli
