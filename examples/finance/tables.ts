import { sql } from '../database.ts'

/** Makes the tables of the bank, with three accounts. The postings of a trade add up to zero. */
export async function prepare(): Promise<void> {
  await sql.unsafe(`
    create schema if not exists bank;
    create table if not exists bank.account (
      id    text primary key,
      cents bigint not null check (cents >= 0)
    );
    create table if not exists bank.trade (
      id      int primary key,
      account text not null references bank.account,
      shares  int not null,
      cents   bigint not null,
      status  text not null
    );
    create table if not exists bank.posting (
      trade   int not null references bank.trade,
      account text not null references bank.account,
      cents   bigint not null,
      primary key (trade, account)
    );
    create table if not exists bank.audit (
      id       int generated always as identity primary key,
      trade    int not null unique references bank.trade,
      event    jsonb not null,
      previous text not null,
      hash     text not null
    );
    insert into bank.account values ('fund', 1000000000), ('purse', 1000), ('market', 0) on conflict do nothing`)
}
