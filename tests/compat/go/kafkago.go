package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

type kafkaGoClient struct {
	brokers []string
	asked   *kafka.Client
	writer  *kafka.Writer
}

func newKafkaGo(bootstrap string) (client, error) {
	brokers := strings.Split(bootstrap, ",")
	byKey := func(each kafka.Message, _ ...int) int {
		partition, _ := strconv.Atoi(string(each.Key))
		return partition
	}
	return &kafkaGoClient{
		brokers,
		&kafka.Client{Addr: kafka.TCP(brokers...)},
		&kafka.Writer{
			Addr:         kafka.TCP(brokers...),
			Balancer:     kafka.BalancerFunc(byKey),
			RequiredAcks: kafka.RequireAll,
			BatchTimeout: 5 * time.Millisecond,
		},
	}, nil
}

func (c *kafkaGoClient) create(topic string) error {
	wanted := kafka.TopicConfig{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}
	answer, err := c.asked.CreateTopics(context.Background(), &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{wanted},
	})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

func (c *kafkaGoClient) produce(topic string, partition int, values ...string) error {
	messages := make([]kafka.Message, len(values))
	for i, value := range values {
		messages[i] = kafka.Message{Topic: topic, Key: []byte(strconv.Itoa(partition)), Value: []byte(value)}
	}
	return c.writer.WriteMessages(context.Background(), messages...)
}

func (c *kafkaGoClient) committed(group, topic string) (found [partitions]int64, err error) {
	answer, err := c.asked.OffsetFetch(context.Background(), &kafka.OffsetFetchRequest{
		GroupID: group, Topics: map[string][]int{topic: {0, 1, 2, 3}},
	})
	if err != nil {
		return found, err
	}
	for _, each := range answer.Topics[topic] {
		found[each.Partition] = each.CommittedOffset
	}
	return found, answer.Error
}

func (c *kafkaGoClient) join(group, topic string) (member, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:     c.brokers,
		GroupID:     group,
		Topic:       topic,
		StartOffset: kafka.FirstOffset,
		MaxWait:     200 * time.Millisecond,
	})
	ctx, cancel := context.WithCancel(context.Background())
	one := &kafkaGoMember{make(chan record), reader, cancel, make(chan struct{})}
	go one.run(ctx)
	return one, nil
}

type kafkaGoMember struct {
	found  chan record
	reader *kafka.Reader
	cancel context.CancelFunc
	done   chan struct{}
}

func (m *kafkaGoMember) run(ctx context.Context) {
	defer close(m.done)
	for {
		each, err := m.reader.FetchMessage(ctx)
		if err != nil {
			return
		}
		select {
		case m.found <- record{each.Partition, each.Offset, string(each.Value)}:
			if err := m.reader.CommitMessages(context.Background(), each); err != nil {
				fmt.Fprintln(os.Stderr, "kafka-go:", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (m *kafkaGoMember) records() <-chan record { return m.found }

func (m *kafkaGoMember) stop() error {
	m.cancel()
	<-m.done
	return m.reader.Close()
}
