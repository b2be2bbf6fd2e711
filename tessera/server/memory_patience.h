// Threads that serve all requests, such as a scheduler's, cannot pass a lack of memory on to one request. A handler of
// operator new may let them wait until other threads have freed memory; the program that installs it looks here.
#pragma once

namespace tessera::server {

/// Whether the present thread serves all requests.
inline thread_local bool serves_all_requests = false;

}  // namespace tessera::server
