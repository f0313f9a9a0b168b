#include "textflag.h"

// The return address is on the stack that both processes use, and the child calls
// other functions: the parent keeps it in a register meanwhile.

// func Call(trap, a1, a2, a3 uintptr) (result, errno uintptr)
TEXT ·Call(SB),NOSPLIT|NOFRAME,$0-48
	MOVQ	trap+0(FP), AX
	MOVQ	a1+8(FP), DI
	MOVQ	a2+16(FP), SI
	MOVQ	a3+24(FP), DX
	XORL	R10, R10
	XORL	R8, R8
	XORL	R9, R9
	POPQ	R12
	SYSCALL
	PUSHQ	R12
	CMPQ	AX, $-4095
	JCC	failed
	MOVQ	AX, result+32(FP)
	MOVQ	$0, errno+40(FP)
	RET
failed:
	NEGQ	AX
	MOVQ	$-1, result+32(FP)
	MOVQ	AX, errno+40(FP)
	RET
