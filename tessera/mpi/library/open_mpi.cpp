// libtessera-mpi.so: the functions of functions.h by Open MPI. It uses no C++ library, so any program can load it.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdio>
#include <cstdlib>

#include "tessera/mpi/library/functions.h"

#ifndef OPEN_MPI
#error "libtessera-mpi.so needs Open MPI: its mpirun sets the variables by which tessera knows its rank"
#endif

struct tessera_mpi_request {
  MPI_Request request;
};

namespace {

MPI_Comm g_ranks = MPI_COMM_NULL;  // all ranks, apart from messages of others with MPI_COMM_WORLD

int init(int* rank, int* n_ranks) {
  // Threads take turns: one begins, one sends and receives, and one ends.
  int has = MPI_THREAD_SINGLE;
  if (const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &has); code != MPI_SUCCESS) return code;
  if (has < MPI_THREAD_SERIALIZED) return MPI_ERR_OTHER;
  if (const int code = MPI_Comm_dup(MPI_COMM_WORLD, &g_ranks); code != MPI_SUCCESS) return code;
  // By default an error ends the process.
  if (const int code = MPI_Comm_set_errhandler(g_ranks, MPI_ERRORS_RETURN); code != MPI_SUCCESS) return code;
  if (const int code = MPI_Comm_rank(g_ranks, rank); code != MPI_SUCCESS) return code;
  return MPI_Comm_size(g_ranks, n_ranks);
}

int finish() { return MPI_Finalize(); }

template <class Post>
int post(tessera_mpi_request** request, Post post_with) {
  auto* made = static_cast<tessera_mpi_request*>(std::malloc(sizeof(tessera_mpi_request)));
  if (made == nullptr) return MPI_ERR_NO_MEM;
  const int code = post_with(&made->request);
  if (code != MPI_SUCCESS) std::free(made);
  *request = code == MPI_SUCCESS ? made : nullptr;
  return code;
}

int send(int to, int tag, const void* bytes, size_t n, tessera_mpi_request** request) {
  if (n > INT32_MAX) return MPI_ERR_COUNT;
  return post(request, [&](MPI_Request* made) {
    return MPI_Isend(bytes, static_cast<int>(n), MPI_BYTE, to, tag, g_ranks, made);
  });
}

int receive(int from, int tag, void* room, size_t n, tessera_mpi_request** request) {
  if (n > INT32_MAX) return MPI_ERR_COUNT;
  return post(request, [&](MPI_Request* made) {
    return MPI_Irecv(room, static_cast<int>(n), MPI_BYTE, from, tag, g_ranks, made);
  });
}

int poll(tessera_mpi_request* request, int* is_complete, size_t* n) {
  MPI_Status status;
  *is_complete = 0;
  *n = 0;
  const int code = MPI_Test(&request->request, is_complete, &status);
  if (code != MPI_SUCCESS) *is_complete = 1;
  if (*is_complete == 0) return MPI_SUCCESS;
  std::free(request);
  if (code != MPI_SUCCESS) return code;
  int count = 0;
  if (const int counted = MPI_Get_count(&status, MPI_BYTE, &count); counted != MPI_SUCCESS) return counted;
  *n = count < 0 ? 0 : static_cast<size_t>(count);
  return MPI_SUCCESS;
}

int cancel(tessera_mpi_request* request) { return MPI_Cancel(&request->request); }

void error_text(int code, char* text, size_t n) {
  char full[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  if (MPI_Error_string(code, full, &length) == MPI_SUCCESS)
    std::snprintf(text, n, "%s", full);
  else
    std::snprintf(text, n, "code %d", code);
}

void library_text(char* text, size_t n) {
  std::snprintf(text, n, "Open MPI %d.%d.%d", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION);
}

constexpr tessera_mpi_functions kFunctions = {
    .version = TESSERA_MPI_VERSION,
    .n_bytes = sizeof(tessera_mpi_functions),
    .init = init,
    .finish = finish,
    .send = send,
    .receive = receive,
    .poll = poll,
    .cancel = cancel,
    .error_text = error_text,
    .library_text = library_text,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const tessera_mpi_functions* tessera_mpi_open() {
  return &kFunctions;
}
