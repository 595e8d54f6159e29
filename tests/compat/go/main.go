// One scenario of a group, told by each of several Go clients: `compat CLIENT BOOTSTRAP TOPIC GROUP`.
//
// It produces, consumes, commits, rebalances, and prints what every client sees on every server: the lines are the
// same on Apache Kafka and on Ottla. Standard error has the details of what went wrong.
package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

const (
	partitions = 4
	patience   = 300 * time.Second
)

type record struct {
	partition int
	offset    int64
	value     string
}

// A member of the group hands out what it consumes, and commits it then: what is not handed out comes again.
type member interface {
	records() <-chan record
	stop() error
}

type client interface {
	create(topic string) error
	produce(topic string, partition int, values ...string) error
	join(group, topic string) (member, error)
	// The committed offset of each partition.
	committed(group, topic string) ([partitions]int64, error)
}

var clients = map[string]func(bootstrap string) (client, error){
	"sarama":    newSarama,
	"watermill": newWatermill,
	"kafka-go":  newKafkaGo,
}

func main() {
	if len(os.Args) != 5 {
		fail(fmt.Errorf("usage: compat CLIENT BOOTSTRAP TOPIC GROUP"))
	}
	connect, known := clients[os.Args[1]]
	if !known {
		fail(fmt.Errorf("no client %q", os.Args[1]))
	}
	chosen, err := connect(os.Args[2])
	if err != nil {
		fail(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	told := &story{ctx: ctx, client: chosen, topic: os.Args[3], group: os.Args[4]}
	if err := told.tell(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
