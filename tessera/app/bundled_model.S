// The file as it is, in read-only data: pages of it are read when they are touched.
  .section .rodata
  .global tessera_bundled_model_begin
  .global tessera_bundled_model_end
  .balign 64
tessera_bundled_model_begin:
  .incbin TESSERA_BUNDLED_MODEL
tessera_bundled_model_end:
  .section .note.GNU-stack, "", %progbits
