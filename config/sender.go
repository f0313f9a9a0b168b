package config

import (
	"slices"
	"strings"
)

// anyProvider is the name that stands for every provider.
const anyProvider = "*"

// A Sender is who said something to an agent. What is not known is empty, and
// matches nothing.
type Sender struct {
	Provider string `json:"provider"` // such as telegram; empty: the command line or the API
	ID       string `json:"id"`
	From     string `json:"from,omitempty"` // the address as the provider writes it
	E164     string `json:"e164,omitempty"` // telephone number
	Name     string `json:"name,omitempty"` // that is shown, and that each can choose
	Username string `json:"username,omitempty"`
	Tag      string `json:"tag,omitempty"`
}

// Matches reports whether an entry of a list means the sender: "*"; a value of
// ID, From or E164; or id:, from:, e164:, name:, username: or tag: and a value
// of that field. Case makes no difference, nor does an @ before a user name.
func (s Sender) Matches(entry string) bool {
	entry = strings.TrimSpace(entry)
	if entry == "*" {
		return true
	}
	if prefix, value, ok := strings.Cut(entry, ":"); ok {
		if field, ok := s.fields()[strings.ToLower(strings.TrimSpace(prefix))]; ok {
			return same(field, value)
		}
	}
	return same(s.ID, entry) || same(s.From, entry) || same(s.E164, entry)
}

func (s Sender) fields() map[string]string {
	return map[string]string{"id": s.ID, "from": s.From, "e164": s.E164, "name": s.Name, "username": s.Username, "tag": s.Tag}
}

// same compares what identifies people; nothing is the same as nothing.
func same(a, b string) bool {
	plain := func(s string) string { return strings.TrimPrefix(strings.TrimSpace(s), "@") }
	a, b = plain(a), plain(b)
	return a != "" && strings.EqualFold(a, b)
}

// Allow reports whether an entry for the sender's provider, or for all of them,
// means the sender.
func (s Senders) Allow(sender Sender) bool {
	for provider, entries := range s {
		if provider != anyProvider && !same(provider, sender.Provider) {
			continue
		}
		if slices.ContainsFunc(entries, sender.Matches) {
			return true
		}
	}
	return false
}
