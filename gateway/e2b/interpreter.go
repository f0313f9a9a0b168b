package e2b

import (
	"context"
	_ "embed"
)

// interpreter runs code for clients, at codePort of a sandbox.
//
//go:embed interpreter.py
var interpreter []byte

const codePort = "49999"

// codeTemplates are the names that clients have for the template of a code interpreter. They
// are there in any case.
var codeTemplates = []string{"code-interpreter", "code-interpreter-v1"}

// codePreset starts the interpreter: the image has what it runs code by.
var codePreset = Preset{Start: "exec python3 -", Ready: "curl -fsS -o /dev/null localhost:" + codePort + "/health", Code: true}

// feed gives what was started the program on its standard input: so it is the gateway's, and
// not that of the image or of a snapshot.
func (p *proc) feed(ctx context.Context, program []byte) error {
	if _, err := p.session.Write(ctx, program); err != nil {
		return err
	}
	return p.session.CloseStdin(ctx)
}
