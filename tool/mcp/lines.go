package mcp

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// lines are the messages of a client on a stream, one a line. A line that is none is
// answered with an error: the SDK would end the connection, and with it what runs.
type lines struct {
	io.Closer
	scan *bufio.Scanner
	rest []byte // of the line that is being read
	out  io.Writer
}

// newLines reads in and answers on out, to which others write as well.
func newLines(in io.ReadCloser, out *lockedWriter) *lines {
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, maxLine)
	return &lines{Closer: in, scan: scan, out: out}
}

func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		if !l.scan.Scan() {
			if err := l.scan.Err(); !errors.Is(err, bufio.ErrTooLong) {
				return 0, cmp.Or(err, io.EOF)
			}
			return 0, fmt.Errorf("a message has more than %d bytes", maxLine)
		}
		line := bytes.TrimSpace(l.scan.Bytes())
		if len(line) == 0 {
			continue
		}
		if bad := mistake(line); bad != "" {
			if _, err := io.WriteString(l.out, bad); err != nil {
				return 0, err
			}
			continue
		}
		l.rest = append(bytes.Clone(line), '\n')
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// mistake is the answer to a line that is no message, or else empty. It has no ID: that of
// such a line is not known.
func mistake(line []byte) string {
	const answer = `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":"%s"}}` + "\n"
	if !json.Valid(line) {
		return fmt.Sprintf(answer, jsonrpc.CodeParseError, "Parse error: a message is JSON on one line")
	}
	messages := []json.RawMessage{line}
	if line[0] == '[' { // a batch, as one version of the protocol has it
		messages = nil
		if err := json.Unmarshal(line, &messages); err != nil || len(messages) == 0 {
			return fmt.Sprintf(answer, jsonrpc.CodeInvalidRequest, "Invalid Request")
		}
	}
	for _, m := range messages {
		if _, err := jsonrpc.DecodeMessage(m); err != nil {
			return fmt.Sprintf(answer, jsonrpc.CodeInvalidRequest, "Invalid Request")
		}
	}
	return ""
}

// A lockedWriter writes one message after the other.
type lockedWriter struct {
	io.WriteCloser
	mu sync.Mutex
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.WriteCloser.Write(p)
}
