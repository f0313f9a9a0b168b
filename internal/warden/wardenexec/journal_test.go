package wardenexec

import "github.com/corral-exec/corral/internal/state/journal"

// What the journal has to be longer than, for tests.
const (
	growth      = journal.Growth
	updatePiece = journal.Piece
)
