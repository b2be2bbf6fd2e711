// The files of the chat page, compressed, in read-only data. files.def lists them; the build of the page writes it.
#define TESSERA_PAGE_FILE(number, path, file, type, etag, is_immutable, n_bytes) \
  .global tessera_page_file_##number##_begin; \
  .global tessera_page_file_##number##_end; \
  tessera_page_file_##number##_begin: .incbin file; \
  tessera_page_file_##number##_end:;
  .section .rodata
#include "built/files.def"
  .section .note.GNU-stack, "", %progbits
