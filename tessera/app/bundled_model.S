// The model file, unchanged, in read-only data. Its pages are loaded on first access.
  .section .rodata
  .global tessera_bundled_model_begin
  .global tessera_bundled_model_end
  .balign 64
tessera_bundled_model_begin:
  .incbin TESSERA_BUNDLED_MODEL
tessera_bundled_model_end:
  .section .note.GNU-stack, "", %progbits
