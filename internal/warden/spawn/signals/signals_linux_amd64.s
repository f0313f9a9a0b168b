#include "textflag.h"

// func handlers() (handler, restorer uintptr)
TEXT ·handlers(SB),NOSPLIT,$0-16
	LEAQ	·handle(SB), AX
	MOVQ	AX, handler+0(FP)
	LEAQ	·restore(SB), AX
	MOVQ	AX, restorer+8(FP)
	RET

// The handler gets the signal in DI. In another process than self it sets the default
// action, and sends the signal again, which comes when the handler has returned.
TEXT ·handle(SB),NOSPLIT|NOFRAME|TOPFRAME,$0-0
	MOVL	DI, R12
	MOVL	$39, AX // getpid
	SYSCALL
	CMPQ	AX, ·self(SB)
	JEQ	done
	MOVL	AX, R13
	SUBQ	$40, SP
	MOVQ	$0, 0(SP)
	MOVQ	$0, 8(SP)
	MOVQ	$0, 16(SP)
	MOVQ	$0, 24(SP)
	MOVL	$13, AX // rt_sigaction
	MOVL	R12, DI
	MOVQ	SP, SI
	XORL	DX, DX
	MOVL	$8, R10
	SYSCALL
	MOVL	$62, AX // kill
	MOVL	R13, DI
	MOVL	R12, SI
	SYSCALL
	ADDQ	$40, SP
done:
	RET

TEXT ·restore(SB),NOSPLIT|NOFRAME|TOPFRAME,$0-0
	MOVL	$15, AX // rt_sigreturn
	SYSCALL
	INT	$3
