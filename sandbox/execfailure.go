package sandbox

// An ExecFailure is the error of an ExecEngine for a program that cannot be
// executed. Nothing ran; a shell would exit with that code and say why.
type ExecFailure struct {
	Code int    // 126 or 127
	Text string // one line
}

func (f *ExecFailure) Error() string { return f.Text }
