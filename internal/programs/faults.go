package programs

import (
	"slices"
	"strings"
)

// TableRows is the number of rows in the tables of carriers and of wrappers.
func TableRows() int { return len(carrierTable) + len(gitTable) + len(wrapperNames()) }

func wrapperNames() []string {
	var names []string
	for name := range wrappers() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// WithoutRow removes row i while f runs. It is for tests of the other defences, in case a
// table has a mistake. programs are the programs of the row.
func WithoutRow(i int, f func(row string, programs []string)) {
	rows := slices.Concat(carrierTable, gitTable)
	if i < len(rows) {
		row := rows[i]
		carriers() // fill the table now, so that it is not filled later
		defer func() { makeCarriers(slices.Concat(carrierTable, gitTable)) }()
		makeCarriers(slices.Delete(rows, i, i+1))
		var programs []string
		for names := range strings.SplitSeq(row.programs, ",") {
			programs = append(programs, strings.Fields(names)[0])
		}
		f(row.programs+": "+row.options, programs)
		return
	}
	name := wrapperNames()[i-len(rows)]
	table := wrappers()
	old := table[name]
	delete(table, name)
	defer func() { table[name] = old }()
	f(name, strings.Fields(name)[:1])
}
