// The functions of libtessera-mpi.so. This library alone is linked with Open MPI, so the program needs none. A program
// opens it only under mpirun. The interface is plain C without allocations that cross it: the library may be built by
// another compiler. Sizes are in bytes.
//
// Calls never overlap, but any of them may be on another thread.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define TESSERA_MPI_SYMBOL "tessera_mpi_open"
#define TESSERA_MPI_VERSION 1

/* A send or a receive. */
typedef struct tessera_mpi_request tessera_mpi_request;

typedef struct tessera_mpi_functions {
  uint32_t version; /* TESSERA_MPI_VERSION */
  uint32_t n_bytes; /* of this struct */

  /* Each of these returns 0, or a code for error_text(). */
  int (*init)(int* rank, int* n_ranks);
  /* Waits for all other ranks to call it. */
  int (*finish)(void);
  /* `bytes` stays in place until the request is complete. At most 2^31 - 1 bytes. */
  int (*send)(int to, int tag, const void* bytes, size_t n, tessera_mpi_request** request);
  int (*receive)(int from, int tag, void* room, size_t n, tessera_mpi_request** request);
  /* Sets is_complete, and then n to the bytes of a message that was received. A complete request, also one that failed,
     is freed. */
  int (*poll)(tessera_mpi_request* request, int* is_complete, size_t* n);
  /* Asks a receive to take no message. It is complete afterwards, or soon. */
  int (*cancel)(tessera_mpi_request* request);

  /* Writes a text of at most n - 1 characters and a zero byte. */
  void (*error_text)(int code, char* text, size_t n);
  /* Writes the name and version of the MPI library in the same way. */
  void (*library_text)(char* text, size_t n);
} tessera_mpi_functions;

typedef const tessera_mpi_functions* (*tessera_mpi_entry)(void);
