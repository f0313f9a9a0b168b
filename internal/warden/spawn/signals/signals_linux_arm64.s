#include "textflag.h"

// func handlers() (handler, restorer uintptr)
TEXT ·handlers(SB),NOSPLIT,$0-16
	MOVD	$·handle(SB), R0
	MOVD	R0, handler+0(FP)
	MOVD	ZR, restorer+8(FP)
	RET

// The handler gets the signal in R0. In another process than self it sets the default
// action, and sends the signal again, which comes when the handler has returned.
TEXT ·handle(SB),NOSPLIT|NOFRAME|TOPFRAME,$0-0
	MOVW	R0, R9
	MOVD	$172, R8 // getpid
	SVC
	MOVD	·self(SB), R10
	CMP	R10, R0
	BEQ	done
	MOVD	R0, R10
	SUB	$32, RSP
	STP	(ZR, ZR), 0(RSP)
	STP	(ZR, ZR), 16(RSP)
	MOVD	$134, R8 // rt_sigaction
	MOVD	R9, R0
	MOVD	RSP, R1
	MOVD	$0, R2
	MOVD	$8, R3
	SVC
	MOVD	$129, R8 // kill
	MOVD	R10, R0
	MOVD	R9, R1
	SVC
	ADD	$32, RSP
done:
	RET

// The kernel has its own.
TEXT ·restore(SB),NOSPLIT|NOFRAME|TOPFRAME,$0-0
	RET
