package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/cli/termfilter"
)

// shown is where the output of a session goes. What goes to a terminal is filtered:
// none of it reaches the clipboard, the title or anything else beyond the screen.
type shown struct {
	app     *app
	raw     bool // nothing is filtered
	screen  bool // the program has the terminal for itself
	answers bool // what the terminal answers goes to the program
	filters [2]termfilter.Filter
}

const rawUsage = "pass output on byte for byte also to a terminal: what it says to the clipboard, the title and the like counts"

// write prints output that was read at an offset.
func (v *shown) write(c corral.Chunk, off int64) error {
	if gap := c.Offset - off; gap > 0 {
		v.app.warn(fmt.Sprintf("%d bytes of the output are missing here: the log keeps its beginning and its end.", gap))
	}
	var out io.Writer = v.app.stdout
	filter := &v.filters[0]
	if c.Stream == corral.Stderr {
		out, filter = v.app.stderr, &v.filters[1]
	}
	data := c.Data
	if file, ok := out.(*os.File); ok && !v.raw && isTerminal(file) {
		filter.Screen, filter.Answers = v.screen, v.answers
		data = filter.Filter(data)
	}
	if _, err := out.Write(data); err != nil {
		return fmt.Errorf("cannot write the session's %s: %w", c.Stream, err)
	}
	return nil
}
