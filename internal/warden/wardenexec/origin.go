package wardenexec

import (
	"cmp"
	"context"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/origin"
)

// maxOriginText bounds the text of a command that is kept, in bytes.
const maxOriginText = 512

// originOf is what is kept of a command; nil if its caller names no agent.
func originOf(ctx context.Context, cmd corral.Command) *origin.Origin {
	agent := corral.AgentFrom(ctx)
	if agent == "" {
		return nil
	}
	text := cmd.Shell
	text = cmp.Or(text, strings.Join(cmd.Args, " "))
	if len(text) > maxOriginText {
		text = text[:maxOriginText] + "…"
	}
	o := origin.New(agent, strings.ToValidUTF8(text, ""), cmd)
	return &o
}
