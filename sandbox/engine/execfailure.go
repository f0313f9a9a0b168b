package engine

import "github.com/corral-exec/corral/internal/streamexec"

// An ExecFailure is the error of an ExecEngine for a program that cannot be
// executed. Nothing ran; a shell would exit with that code and say why.
type ExecFailure = streamexec.Failure
