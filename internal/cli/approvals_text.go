package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// visible is text on one line in which everything can be seen.
func visible(text string) string { return approval.Visible(text) }

// brief is the beginning of a text on one line.
func brief(text string, columns int) string {
	return runewidth.Truncate(visible(strings.Join(strings.Fields(text), " ")), columns, "…")
}

// describeApproval is all about an approval.
func describeApproval(rec approval.Record, now time.Time) []string {
	lines := []string{fmt.Sprintf("Approval %s (%s)", rec.Slug, rec.ID)}
	if rec.State == approval.Pending {
		lines = append(lines, "State:     pending; expires "+cmdline.WhenText(rec.ExpiresAt, now))
	} else {
		lines = append(lines, "State:     "+string(rec.State)+": "+visible(rec.SettledAs(func(t time.Time) string { return cmdline.WhenText(t, now) })))
	}
	lines = append(lines, "Agent:     "+visible(rec.Agent))
	if rec.SessionKey != "" {
		lines = append(lines, "From:      "+visible(rec.SessionKey))
	}
	if rec.Gateway != "" {
		lines = append(lines, "Asked at:  the gateway "+visible(rec.Gateway))
	}
	lines = append(lines, rec.About()...)
	return append(lines, rec.AboutAlways()...)
}

// sourceText is where a rule is written, short.
func sourceText(s policy.Source) string {
	if s.File == "" {
		return s.Name
	}
	return fmt.Sprintf("%s:%d", filepath.Base(s.File), s.Line)
}
