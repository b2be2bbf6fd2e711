#pragma once
// The names of llama.h whose arguments are the same in every layout: jumps to the functions of libtessera.so.
// cmake/libllama.cmake writes an assembler source of TESSERA_LLAMA_STUB(name, target) for each layout.
#if defined(__x86_64__)
#define TESSERA_LLAMA_STUB(name, target) \
  .globl name;                           \
  .type name, @function;                 \
  .p2align 4;                            \
  name:;                                 \
  endbr64;                               \
  jmp* target @GOTPCREL(% rip);          \
  .size name, .- name;
#elif defined(__aarch64__)
#define TESSERA_LLAMA_STUB(name, target) \
  .globl name;                           \
  .type name, % function;                \
  .p2align 4;                            \
  name:;                                 \
  hint 34;                               \
  adrp x16, : got : target;              \
  ldr x16, [ x16, :got_lo12:target ];    \
  br x16;                                \
  .size name, .- name;
#else
#error "stubs.h: no jumps for this machine"
#endif

.section.note.GNU - stack, "", % progbits.text
