package wardenexec

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// What a hostile warden can make us remember: processes, and bytes of them all.
const (
	maxItems     = 1 << 16
	maxItemBytes = 64 << 20
)

// keepItem keeps what is used of a process that the warden lists: its ID, Tag, Flags and
// Offset. The rest, how it ended with it, comes again with the answer to Attach. size is
// how much was kept before.
func (c *client) keepItem(m *wire.Message, size *int) error {
	if len(m.Tag) > wire.MaxTag {
		return fmt.Errorf("the warden lists a process with a tag of %d bytes, more than %d", len(m.Tag), wire.MaxTag)
	}
	if len(c.items) >= maxItems {
		return fmt.Errorf("the warden lists more than %d processes", maxItems)
	}
	if *size += len(m.ID) + len(m.Tag); *size > maxItemBytes {
		return fmt.Errorf("the warden lists processes of more than %d bytes", maxItemBytes)
	}
	c.items[m.ID] = &wire.Message{Type: m.Type, ID: m.ID, Tag: m.Tag, Flags: m.Flags, Offset: m.Offset}
	return nil
}

// maxInput is more than any process is given: with it no offset of input overflows.
const maxInput = 1 << 62

// readTag reads what the warden keeps of a process, and checks the rest of what it says of it.
func (p *process) readTag(m *wire.Message, t *tag) error {
	err := fmt.Errorf("it has %d bytes, more than %d", len(m.Tag), wire.MaxTag)
	if len(m.Tag) <= wire.MaxTag { // it goes into the record
		err = json.Unmarshal(m.Tag, t)
	}
	switch {
	case err != nil:
	case !t.Limit.Valid():
		err = fmt.Errorf("its log cannot have the limit %d+%d", t.Limit.Head, t.Limit.Tail)
	case m.Offset > maxInput:
		err = fmt.Errorf("it says that the process was given %d bytes of input", m.Offset)
	}
	if err != nil {
		return corral.Errorf(corral.ErrUnavailable, "", "what the warden keeps of process %s is damaged: %w", p.id, err)
	}
	return nil
}

// maxPID is beyond what Linux gives to a process.
const maxPID = 1<<31 - 1

// maxRefused bounds what is kept of the name of a program, in bytes.
const maxRefused = 4096

// exitOf is what a warden says of an end. It may say anything: what cannot be is
// left out.
func exitOf(m *wire.Message) corral.Exit {
	exit := corral.Exit{Code: int(m.ExitCode & 0xff), Reason: corral.ReasonExited, StartedAt: unixNano(m.StartedAt), EndedAt: unixNano(m.EndedAt)}
	if s := corral.Signal(m.Signal); s.Valid() {
		exit.Code, exit.Signal = -1, s
	}
	switch m.Reason {
	case wire.ReasonTimeout:
		exit.Reason = corral.ReasonTimeout
	case wire.ReasonOOM:
		exit.Reason = corral.ReasonOOM
	}
	for _, text := range m.Args[:min(len(m.Args), wire.MaxOrphans)] {
		if pid, err := strconv.Atoi(text); err == nil && pid > 0 && pid <= maxPID {
			exit.Orphans = append(exit.Orphans, pid)
		}
	}
	for _, path := range m.Refused[:min(len(m.Refused), wire.MaxRefused)] {
		exit.Refused = append(exit.Refused, strings.ToValidUTF8(strings.Clone(path[:min(len(path), maxRefused)]), "\ufffd"))
	}
	return exit
}
