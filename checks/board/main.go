// SPDX-License-Identifier: MIT OR Apache-2.0

// Is a dashboard one by Grafana's own schema? The types of its SDK are generated from that; read
// strictly, they refuse fields that it does not have, miss those that it wants, and know which
// values there are.
package main

import (
	"fmt"
	"os"

	_ "github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	raw, err := os.ReadFile(os.Args[1])
	if err == nil {
		board := dashboard.Dashboard{}
		// A list of errors that is empty is an error, too, of no words.
		if err = board.UnmarshalJSONStrict(raw); err == nil || err.Error() == "" {
			err = board.Validate()
		}
	}
	if err != nil && err.Error() != "" {
		fmt.Printf("%s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}
