package wardenexec

import (
	"fmt"

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
