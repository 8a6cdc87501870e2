// Calls something with a quota, with the gate's permission: call_with_admission [ADDRESS [TARGET [TENANT]]].
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"fairgate.io/go/fairgate"
)

// callTheProvider stands for the external call, and answers as OpenAI's API does.
func callTheProvider(number int) []byte {
	time.Sleep(20 * time.Millisecond)
	return []byte(fmt.Sprintf(`{"id": %d, "usage": {"total_tokens": 640}}`, number))
}

func ask(ctx context.Context, gate *fairgate.Gate, request fairgate.Request, number int) error {
	call, err := gate.Admit(ctx, request)
	if err != nil {
		return err
	}
	defer call.Close()
	call.SettleResponse(fairgate.Response{Status: 200, Body: callTheProvider(number)})
	if call.Degraded {
		fmt.Printf("call %d: granted, degraded\n", number)
	} else {
		fmt.Printf("call %d: granted\n", number)
	}
	return nil
}

func main() {
	arguments := []string{fairgate.DefaultAddress, "openai-prod", "acme"}
	copy(arguments, os.Args[1:])
	gate, err := fairgate.New(arguments[0], fairgate.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer gate.Close()
	request := fairgate.Request{Target: arguments[1], Tenant: arguments[2], Cost: fairgate.Amounts{"tokens": 900}}
	for number := 1; number <= 5; number++ {
		var deferred *fairgate.Deferred
		var rejected *fairgate.Rejected
		switch err := ask(context.Background(), gate, request, number); {
		case errors.As(err, &deferred):
			// A worker of an engine gives its slot back here, and asks again with deferred.RequestID.
			fmt.Printf("call %d: deferred by %.3f s\n", number, deferred.Delay.Seconds())
		case errors.As(err, &rejected):
			fmt.Printf("call %d: rejected: %s\n", number, rejected.Message)
		case err != nil:
			log.Fatal(err)
		}
	}
}
